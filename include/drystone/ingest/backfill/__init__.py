"""Backfill: messages of a wrong range parsed anew, in place of their rows. Source: the design, "Ingest: backfill"."""
