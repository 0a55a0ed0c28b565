"""Streaming k-way merge of sorted inputs, in windows of many rows at a time.

A window is all rows up to the smallest of the inputs' last buffered keys: no row that is read later can come before
them. Its rows are ordered by their keys as numbers and gathered once. Where only one input has rows in a window, they
pass through as they are. Source: the design, "Compaction: executing".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from drystone.engine import keys
from drystone.engine.columns import U64
from drystone.engine.gather import Gatherer
from drystone.engine.merge_input import MergeInput, Piece
from drystone.engine.spill import spill
from drystone.errors import InvariantError

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
        opened = [
            MergeInput(name, batches, tuple(sort_key), batch_rows, pool)
            for name, batches in zip(labels, inputs, strict=True)
        ]
        yield from _merge(opened, out_rows)
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


def _merge(inputs: Sequence[MergeInput], out_rows: int) -> Iterator[pa.Table]:
    gatherer = Gatherer()
    emitted = 0
    live = [source for source in inputs if source.ready()]
    while live:
        pieces = _window(live)
        for source in live:
            source.read_ahead()
        for table in _ordered(pieces, gatherer, emitted, out_rows):
            emitted += table.num_rows
            yield table
        live = [source for source in live if source.ready()]


def _window(live: Sequence[MergeInput]) -> list[Piece]:
    """Take the rows up to the smallest last key of those inputs that have more to come; all rows if none has."""
    bounds = [source.last for source in live if not source.exhausted]
    cut = min(bounds, key=keys.rank, default=None)
    return [piece for source in live for piece in source.take(cut)]


def _ordered(pieces: Sequence[Piece], gatherer: Gatherer, emitted: int, out_rows: int) -> Iterator[pa.Table]:
    """Yield the window's rows in order. Raises InvariantError if the rows of an input are not."""
    first = pieces[0].source
    if all(piece.source is first for piece in pieces):
        for piece in pieces:
            _check(piece.source, keys.digits(piece.arrays, piece.batch.num_rows))
            table = pa.Table.from_batches([piece.batch])
            for low, high in _cuts(table.num_rows, emitted, out_rows):
                yield table.slice(low, high - low)
            emitted += table.num_rows
        return
    gatherer.load(pieces)
    rows = gatherer.rows
    digits = keys.digits([gatherer.column(name) for name in first.sort_key], rows)
    wrong = keys.descents(digits)
    if len(wrong):
        _check_descents(wrong.tolist(), pieces)
    order = keys.ordering(digits, rows)
    del digits
    for low, high in _cuts(rows, emitted, out_rows):
        yield gatherer.take(order[low:high])


def _cuts(rows: int, emitted: int, out_rows: int) -> Iterable[tuple[int, int]]:
    """Return the ranges of rows that end at multiples of `out_rows` of the whole output."""
    first = out_rows - emitted % out_rows
    return pairwise([0, *range(first, rows, out_rows), rows])


def _check(source: MergeInput, digits: list[U64]) -> None:
    wrong = keys.descents(digits)
    if len(wrong):
        raise source.disorder()


def _check_descents(wrong: Sequence[int], pieces: Sequence[Piece]) -> None:
    """Tell descents inside an input, which are errors, from those where the next input's rows begin."""
    begin, starts, owner = 0, {}, pieces[0].source
    spans: list[tuple[int, MergeInput]] = []
    for piece in pieces:
        if not spans or piece.source is not owner:
            starts[begin] = piece.source
        owner = piece.source
        begin += piece.batch.num_rows
        spans.append((begin, owner))
    for row in wrong:
        if row not in starts:
            raise next(source for end, source in spans if row < end).disorder()
