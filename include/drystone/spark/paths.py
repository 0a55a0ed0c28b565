"""Paths that Spark reads as they are."""

from __future__ import annotations

import re

from drystone.errors import UsageError

_PATTERN = re.compile(r"[][{}*?\\]")


def plain_path(path: str) -> str:
    """Return the path; raise UsageError if Spark would take it for a pattern, and read other files, or none."""
    if found := _PATTERN.search(path):
        msg = f"Spark cannot read {path}: it takes {found[0]!r} in a name for a pattern."
        raise UsageError(msg, "Rename the file or its folder.")
    return path
