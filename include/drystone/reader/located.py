"""Rows of one block that a reader sees, each with its place in the block: for a trace, and for who replaces them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.block import keys
from drystone.block.meta import INDEX_FILE
from drystone.bucket.files import open_input
from drystone.bucket.protocol import Bucket
from drystone.engine.decoding import decoding
from drystone.reader.view import BlockRead, View
from drystone.rows import expressions
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.fetched import iter_batches, open_parquet
from drystone.rows.index import IndexEntry, read_index

ROW = "__row"
"""The row's number in its block, from 0: chunk files and row groups one after the other."""

Wanted = Callable[[IndexEntry], bool]
"""Tells by its index entry whether a row group can hold a row that is looked for."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stream's blocks lie: as much of a view as a task needs that reads some of them."""

    bucket: Bucket
    stream: str
    time_column: str

    @classmethod
    def of(cls, view: View) -> Place:
        """Return the place of a view's stream."""
        return cls(view.bucket, view.record.stream, view.record.time_column)


def _every(_: IndexEntry) -> bool:
    return True


def rows_of(
    place: Place, read: BlockRead, columns: Sequence[str], keep: pc.Expression, wanted: Wanted = _every
) -> Iterator[tuple[str, pa.Table]]:
    """Yield the rows that `keep` selects, less what a reader leaves out, by chunk file: these columns and `__row`.

    Only row groups that are `wanted` are read, and of them no more columns than it takes. A column that the block lacks
    is left out. Raises DamagedStreamError for what cannot be decoded, ObjectMissingError for a block that has gone.
    """
    where = f"block {read.ulid}"
    with decoding(f"the index of {where}"):
        entries = read_index(place.bucket.get(keys.block(place.stream, read.ulid, INDEX_FILE)))
    starts = dict(zip(((e.file, e.ordinal) for e in entries), _starts(entries), strict=True))
    for file in read.files:
        groups = [entry.ordinal for entry in entries if entry.file == file.name and wanted(entry)]
        if not groups:
            continue
        with contextlib.closing(open_input(place.bucket, file.key, file.size)) as source:
            with decoding(f"{where}: {file.name}"):
                parquet, fetched = open_parquet(source)
            names, selected = _what(place.time_column, read, parquet.schema_arrow, columns, keep)
            for group in groups:
                first = starts[file.name, group]
                for batch in iter_batches(parquet, fetched, names, [group]):
                    own = pa.array(np.arange(first, first + batch.num_rows))
                    first += batch.num_rows
                    found = pa.Table.from_batches([batch]).append_column(ROW, own).filter(selected)
                    if found.num_rows:
                        yield file.name, found


def _starts(entries: Sequence[IndexEntry]) -> Iterator[int]:
    return accumulate((entry.rows for entry in entries[:-1]), initial=0) if entries else iter(())


def _what(
    time: str, read: BlockRead, own: pa.Schema, columns: Sequence[str], keep: pc.Expression
) -> tuple[list[str], pc.Expression]:
    """Return the columns to read, and the filter that leaves what a reader sees of what is looked for."""
    needed = set(columns)
    if read.excluded:
        keep &= ~expressions.in_sources(read.excluded)
        needed.add(SOURCE_COLUMN)
    for edit in read.edits:
        keep &= ~expressions.dropped_by(edit, time, own)
        needed |= expressions.columns_of(edit, time)
    return [name for name in own.names if name in needed], keep
