"""Rows out: what to read of which block, and reading it without Spark."""

from drystone.reader.file_reads import files
from drystone.reader.scanning import scan
from drystone.reader.stats import StageStats, observe_stats
from drystone.reader.view import View, look

__all__ = ["StageStats", "View", "files", "look", "observe_stats", "scan"]
