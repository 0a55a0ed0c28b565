"""Streaming k-way merge of sorted inputs, in windows of many rows at a time.

A window is all rows up to the smallest of the inputs' last buffered keys: no row that is read later can come before
them. Its rows are ordered by their keys as numbers and gathered once. Where only one input has rows in a window, they
pass through as they are. Source: the design, "Compaction: executing".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from itertools import pairwise
from operator import itemgetter
from pathlib import Path

import pyarrow as pa

from drystone.errors import InvariantError
from drystone.rows import keys
from drystone.rows.gather import Window
from drystone.rows.interning import Interner
from drystone.rows.merge_input import MergeInput, Piece
from drystone.rows.spill import spill

Batches = Iterator[pa.RecordBatch] | Iterator[pa.Table]

_OUT_ROWS = 131_072


def merge_sorted(
    inputs: Sequence[Batches],
    sort_key: Sequence[str],
    *,
    names: Sequence[str] = (),
    batch_rows: int = 8192,
    out_rows: int = _OUT_ROWS,
    fan_in: int | None = None,
    temp: Path | None = None,
    pool: Executor | None = None,
) -> Iterator[pa.Table]:
    """Yield all rows of the inputs in the order of `sort_key`, in tables of at most `out_rows` rows.

    Each input yields its rows in that order (see `keys`), all inputs with the same columns; of a string column some
    batches may be dictionary arrays. So may be the tables that come out: such a column is a dictionary array or plain,
    table by table. Tables end at multiples of `out_rows` of the whole output, and some before. Rows with equal keys
    come in no promised order, but in the same for the same inputs and batches.

    Memory: about what `plan_fan_in` reckons with; each input is read until `batch_rows` rows are buffered, and read
    ahead in `pool`, if there is one. With more inputs than `fan_in`, groups of them are merged into files in `temp`
    first. Raises InvariantError, with the input's name, if one is not sorted.
    """
    labels = list(names) or [f"input {number}" for number in range(len(inputs))]
    limit = len(inputs) if fan_in is None else fan_in
    if len(inputs) <= limit:
        interner = Interner()
        opened = [
            MergeInput(name, batches, tuple(sort_key), batch_rows, interner, pool)
            for name, batches in zip(labels, inputs, strict=True)
        ]
        yield from _merge(opened, interner, out_rows)
        return
    if temp is None:
        raise InvariantError(
            f"{len(inputs)} inputs exceed the fan-in of {limit}, and there is no folder for temporary files."
        )
    merged, merged_names = [], []
    for number, start in enumerate(range(0, len(inputs), limit)):
        part = slice(start, start + limit)
        tables = merge_sorted(inputs[part], sort_key, names=labels[part], batch_rows=batch_rows, pool=pool)
        merged.append(spill(tables, temp / f"pass-{len(inputs)}-{number}.parquet", batch_rows))
        merged_names.append(f"{labels[part][0]} … {labels[part][-1]}")
    yield from merge_sorted(
        merged,
        sort_key,
        names=merged_names,
        batch_rows=batch_rows,
        out_rows=out_rows,
        fan_in=limit,
        temp=temp,
        pool=pool,
    )


def _merge(inputs: Sequence[MergeInput], interner: Interner, out_rows: int) -> Iterator[pa.Table]:
    emitted = 0
    live = [source for source in inputs if source.ready()]
    while live:
        pieces = _window(live)
        for source in live:
            source.read_ahead()
        ordered = _alone(pieces) if _is_one(pieces) else _together(pieces, interner)
        for table in _cut(ordered, emitted, out_rows):
            emitted += table.num_rows
            yield table
        live = [source for source in live if source.ready()]


def _window(live: Sequence[MergeInput]) -> list[Piece]:
    """Take the rows up to the smallest last key of those inputs that have more to come; all rows if none has."""
    bounds = [source.last for source in live if not source.exhausted]
    cut = min(bounds, key=itemgetter(0))[1] if bounds else None
    return [piece for source in live for piece in source.take(cut)]


def _is_one(pieces: Sequence[Piece]) -> bool:
    return all(piece.source is pieces[0].source for piece in pieces)


Rows = Callable[[int, int], pa.Table]
"""Returns the rows [low, high) of something that is in order."""


def _alone(pieces: Sequence[Piece]) -> Iterator[tuple[int, Rows]]:
    """Yield the pieces of a lone input as they are. Raises InvariantError if one is not sorted."""
    for piece in pieces:
        table = pa.Table.from_batches([piece.rows.batch])
        if not keys.is_sorted(table, piece.source.sort_key):
            raise piece.source.disorder()
        yield table.num_rows, lambda low, high, table=table: table.slice(low, high - low)  # type: ignore[misc]


def _together(pieces: list[Piece], interner: Interner) -> Iterator[tuple[int, Rows]]:
    """Yield the rows of all pieces in order. Raises InvariantError if those of an input are not."""
    window = Window([piece.rows for piece in pieces], interner)
    sort_key = pieces[0].source.sort_key
    digits = keys.digits([window.array(name) for name in sort_key], window.rows)
    _check_descents(keys.descents(digits).tolist(), pieces)
    # The window has its own copy: what was read is free to go before the rows are gathered.
    pieces.clear()
    order = keys.ordering(digits, window.rows)
    del digits
    yield window.rows, lambda low, high: window.take(order[low:high])


def _cut(ordered: Iterator[tuple[int, Rows]], emitted: int, out_rows: int) -> Iterator[pa.Table]:
    """Yield tables that end at multiples of `out_rows` of the whole output."""
    for rows, take in ordered:
        first = out_rows - emitted % out_rows
        for low, high in pairwise([0, *range(first, rows, out_rows), rows]):
            yield take(low, high)
        emitted += rows


def _check_descents(wrong: Sequence[int], pieces: Sequence[Piece]) -> None:
    """Tell descents inside an input, which are errors, from those where the next input's rows begin."""
    begin, starts, owner = 0, {}, pieces[0].source
    spans: list[tuple[int, MergeInput]] = []
    for piece in pieces:
        if not spans or piece.source is not owner:
            starts[begin] = piece.source
        owner = piece.source
        begin += piece.rows.rows
        spans.append((begin, owner))
    for row in wrong:
        if row not in starts:
            raise next(source for end, source in spans if row < end).disorder()
