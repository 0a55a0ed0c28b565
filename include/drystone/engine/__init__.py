"""Doing it: build, upload, merge, mark, delete, verify."""
