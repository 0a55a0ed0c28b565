"""Rows into slices: by time chunk and by the parser's splits, without a look at any single row.

Source: the design, "Ingest: from Kafka" (split by partition: time chunk, or the parser's names).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.block.chunks import Granularity
from drystone.rows import columns


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a row goes: the stream, the start (ms) of its time chunk, None where its time is not known, and a part."""

    stream: str
    chunk_start: int | None
    split: str = ""

    @property
    def rank(self) -> tuple[str, bool, int, str]:
        """What slots are ordered by: chunks by time, what has none last."""
        return (self.stream, self.chunk_start is None, self.chunk_start or 0, self.split)


def cut(
    rows: pa.Table, stream: str, time_column: str, granularity: Granularity, splits: pa.Array | None = None
) -> Iterator[tuple[Slot, pa.Table]]:
    """Yield the rows of each slot, in their order. `splits`: of each row; None: there are none."""
    if not rows.num_rows:
        return
    starts = _chunk_starts(columns.whole(rows.column(time_column)), granularity).dictionary_encode("encode")
    names = (pa.nulls(rows.num_rows, pa.string()) if splits is None else columns.whole(splits)).dictionary_encode(
        "encode"
    )
    parts = len(names.dictionary)
    codes = columns.codes(starts) * parts + columns.codes(names)

    def slot(code: int) -> Slot:
        chunk, part = divmod(code, parts)
        return Slot(stream, starts.dictionary[chunk].as_py(), names.dictionary[part].as_py() or "")

    if len(starts.dictionary) == 1 and parts == 1:
        yield slot(0), rows
        return
    if (np.diff(codes) < 0).any():
        order = np.argsort(codes, kind="stable")
        codes, rows = codes[order], rows.take(pa.array(order))
    changes = np.flatnonzero(np.diff(codes)) + 1
    for low, high in pairwise([0, *changes.tolist(), len(codes)]):
        # Slices share memory: all of them are kept, and let go to disk, together.
        yield slot(int(codes[low])), rows.slice(low, high - low)


def _chunk_starts(time: pa.Array, granularity: Granularity) -> pa.Int64Array:
    """Return the start (ms) of each row's time chunk, null where there is no time."""
    # Without a zone: a look at its rules for each row would give the same.
    moments = time.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    return pc.floor_temporal(moments, unit=granularity).cast(pa.timestamp("ms")).cast(pa.int64())
