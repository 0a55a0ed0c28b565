"""Rows in: where they come from, and the create-only plans that make every retry give the same sources."""
