"""How many inputs a merge reads at once, and in what batches, within a budget of memory. Pure.

Source: the design, "Compaction: bounded memory (`memory_per_task`, independent of block size)".
"""

from __future__ import annotations

from dataclasses import dataclass

from drystone.errors import UsageError

_MIN_BATCH = 1024
_LARGE = 64
"""A smaller batch does where that many rows would take more than this part of the memory …"""
_OUT = 12
"""… and fewer rows are handed on at a time where those of a row group would take more than this part."""
_MAX_BATCH = 65_536
_MAX_WINDOW = 1 << 19
"""Rows: more do not make a merge faster."""
_MAX_OPEN = 400
"""Files: processes are often limited to 1,024."""
_COPIES = 5
"""Of a buffered row: what is read (up to two batches), the window's, and what Arrow's reader and allocator keep."""
_KEYS = 40
"""Bytes per row of a window for codes, digits and the order."""
_ROW_GROUPS = 3
"""Of the output: gathered, being gathered, being encoded."""


@dataclass(frozen=True, slots=True)
class MergePlan:
    """Merge at most `fan_in` inputs at once, read `batch_rows` rows at a time; `passes` over the data, 1 or more.

    `out_rows`: how many rows to hand on at a time, a row group's or, where rows are large, fewer.
    """

    fan_in: int
    batch_rows: int
    passes: int
    out_rows: int


def plan_fan_in(inputs: int, row_bytes: int, open_bytes: int, memory: int, row_group_rows: int) -> MergePlan:
    """Return how to merge `inputs` inputs within about `memory` bytes, beyond what an idle interpreter takes.

    `row_bytes`: what a row takes in memory; `open_bytes`: what an open input takes besides its batches;
    `row_group_rows`: rows that are handed on at a time, at most. Raises UsageError if not even two inputs fit.
    """
    out_rows = max(1, min(row_group_rows, memory // _OUT // row_bytes))
    free = memory - _ROW_GROUPS * out_rows * row_bytes
    per_row = _COPIES * row_bytes + _KEYS
    least = max(1, min(_MIN_BATCH, memory // _LARGE // per_row))
    smallest = open_bytes + least * per_row
    fan_in = min(max(inputs, 1), _MAX_OPEN, max(0, free) // smallest)
    if fan_in < min(2, inputs):
        needed = memory - free + 2 * smallest
        msg = f"a merge of rows of {row_bytes} bytes needs {needed:,} bytes of memory, and may use {memory:,}."
        raise UsageError(msg, "Raise memory_per_task.")
    passes = 1
    while fan_in > 1 and fan_in**passes < inputs:
        passes += 1
    # No more inputs at once than the passes ask for: what an open one takes is better spent on larger batches.
    while passes > 1 and (fan_in - 1) ** passes >= inputs:
        fan_in -= 1
    fan_in = max(1, fan_in)
    batch = (free - fan_in * open_bytes) // (fan_in * per_row)
    batch = max(least, min(batch, _MAX_BATCH, _MAX_WINDOW // fan_in))
    # Arrow's reader takes memory in powers of two, whatever it needs.
    return MergePlan(fan_in, 1 << (batch.bit_length() - 1), passes, out_rows)
