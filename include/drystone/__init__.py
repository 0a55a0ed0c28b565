"""Drystone: blocks on object storage that hold together without locks.

`drystone.scan` and `drystone.files` read a stream without Spark, `drystone.read` with it. They are imported when they
are asked for: most users of the package, such as a DAG file, need none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from drystone.reader.file_reads import files
    from drystone.reader.scanning import scan
    from drystone.spark.read import read

__all__ = ["files", "read", "scan"]

_HOMES = {"files": "drystone.reader.file_reads", "scan": "drystone.reader.scanning", "read": "drystone.spark.read"}


def __getattr__(name: str) -> Any:
    """Import what the public name stands for."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
