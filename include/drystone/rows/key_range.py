"""Cutting a sorted input to the rows of a range of keys: one output's share of a group. Design: "Compaction"."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from drystone.errors import InvariantError
from drystone.rows import keys
from drystone.rows.keys import Key
from drystone.rows.sort_columns import KeyReader


def within(
    batches: Iterator[pa.RecordBatch], sort_key: Sequence[str], low: Key | None, high: Key | None, name: str
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a sorted input with keys in [low, high), and stop reading at the first one beyond.

    None is open; keys may be prefixes. Raises InvariantError, naming the input, if a batch that is cut is not sorted:
    a cut finds rows by bisection, and would lose some.
    """
    if low is None and high is None:
        yield from batches
        return
    reader = KeyReader(sort_key)
    for batch in batches:
        if batch.num_rows == 0:
            continue
        found = reader.columns(batch)
        first = 0 if low is None else found.rows_below(low, inclusive=False)
        last = batch.num_rows if high is None else found.rows_below(high, inclusive=False)
        if last - first < batch.num_rows and not keys.is_sorted(batch, sort_key):
            raise InvariantError(f"{name} is not sorted by {', '.join(sort_key)}.", "Verify the block, and repair it.")
        if first < last:
            yield batch.slice(first, last - first)
        if last < batch.num_rows:
            return
