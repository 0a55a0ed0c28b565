"""Rows in Arrow: sorted files read, merged, checked and written, in bounded memory. No bucket, no clock."""
