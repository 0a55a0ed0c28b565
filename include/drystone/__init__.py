"""Drystone: blocks on object storage that hold together without locks."""
