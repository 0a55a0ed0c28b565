"""The names of the pools. They only queue: that two removers do not meet rests on the lease in the bucket."""

from __future__ import annotations

SPARK_POOL = "drystone_spark"
"""Bounds the Spark jobs that run at once."""


def remover_pool(stream: str) -> str:
    """The pool with one slot for what marks and deletes blocks of `stream`."""
    return f"drystone_remover_{stream}"
