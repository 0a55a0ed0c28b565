"""Opening the local file that is to become an object."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from drystone.bucket.failures import explain
from drystone.errors import UsageError


def open_source(path: Path) -> BinaryIO:
    """Open a local file to upload; raise UsageError if there is none, BucketError if it may not be read."""
    try:
        if path.is_file():  # Opening a pipe would wait for its writer.
            return path.open("rb")
    except OSError as error:
        raise explain(error, "read", path) from error
    raise UsageError(f"{path} is no file that could be uploaded.", "Check the path.")
