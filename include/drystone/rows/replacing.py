"""Rows of some sources taken out of a group, less what is dropped, into one block for each source.

Source: the design, "Visibility: replacing data". Arrow only: no bucket, no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from drystone import ulids
from drystone.errors import InvariantError
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.checksum import ContentChecksum
from drystone.rows.drops import Drops, Tally, from_sources, without
from drystone.rows.fan_in import plan_fan_in
from drystone.rows.merge import merge_sorted
from drystone.rows.reading import open_sorted
from drystone.rows.rewrite import RewriteInput
from drystone.rows.writer import Built, ChunkWriter


@dataclass(frozen=True, slots=True)
class Shape:
    """How the new blocks are built. `schema`: plain types, with `__source`; `memory`: bytes that may be taken."""

    schema: pa.Schema
    sort_key: tuple[str, ...]
    time_column: str
    row_group_rows: int
    memory: int


@dataclass(frozen=True, slots=True)
class Replaced:
    """What was built of one source's rows: rows_in = built.rows + rows_dropped."""

    built: Built
    rows_in: int
    rows_dropped: int


@dataclass(slots=True)
class _Open:
    """A source whose rows are being written under a new name."""

    by: str
    writer: ChunkWriter
    tally: Tally


def replace_sources(
    inputs: Sequence[RewriteInput], swaps: Sequence[tuple[str, str]], drops: Drops, folder: Path, shape: Shape
) -> dict[str, Replaced]:
    """Build one block in `folder/<root>` for each swap (root, by); return them by root.

    `inputs`: the members of one group. `drops`: which of their rows do not come along. Every input is read whole and
    compared with its recorded rows and checksum; what comes out of a source is compared with what came in.

    Raises InvariantError, naming what differs, if rows or checksums do not add up or an input is not sorted; InputError
    as reading does. Nothing is to be uploaded then.
    """
    opened = {root: _open(by, folder / root, shape) for root, by in swaps}
    temp = folder / "temp"
    temp.mkdir(parents=True)
    files = [file for each in inputs for file in each.files]
    row_bytes = max((file.row_bytes for file in files), default=1)
    buffered = len(swaps) * shape.row_group_rows * row_bytes
    plan = plan_fan_in(
        len(inputs),
        row_bytes,
        max((file.open_bytes for file in files), default=0),
        max(shape.memory - buffered, shape.memory // 2),
        shape.row_group_rows,
    )
    tables = merge_sorted(
        [_wanted(each, opened.keys(), shape, plan.batch_rows) for each in inputs],
        shape.sort_key,
        names=[each.name for each in inputs],
        batch_rows=plan.batch_rows,
        out_rows=plan.out_rows,
        fan_in=plan.fan_in,
        temp=temp,
    )
    for table in tables:
        for batch in table.to_batches():
            for root, each in opened.items():
                _write(batch, root, each, drops)
    return {root: _close(root, each) for root, each in opened.items()}


def _open(by: str, folder: Path, shape: Shape) -> _Open:
    folder.mkdir(parents=True)
    writer = ChunkWriter(folder, shape.schema, shape.sort_key, shape.time_column, shape.row_group_rows)
    return _Open(by, writer, Tally())


def _wanted(each: RewriteInput, sources: AbstractSet[str], shape: Shape, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the input's rows of these sources; at the end compare all that was read with what is recorded."""
    read = ContentChecksum()
    for file in each.files:
        for batch in open_sorted(file, shape.schema, batch_rows=batch_rows):
            read.update(batch)
            hit = from_sources(batch, sources)
            if hit is not None and hit.any():
                yield batch.filter(pa.array(hit))
    if each.rows is not None and each.rows != read.rows:
        msg = f"{each.name} has {read.rows} rows, and its meta.json says {each.rows}."
        raise InvariantError(msg, "Nothing was uploaded; verify the block.")
    if each.checksum and each.checksum != read.hex:
        msg = f"{each.name} has content checksum {read.hex}, and its meta.json says {each.checksum}."
        raise InvariantError(msg, "Nothing was uploaded; verify the block.")


def _write(batch: pa.RecordBatch, root: str, each: _Open, drops: Drops) -> None:
    mine = from_sources(batch, {root})
    if mine is None or not mine.any():
        return
    for kept in without(iter([batch.filter(pa.array(mine))]), drops, each.tally, sum_input=True):
        codes = pa.array(np.zeros(kept.num_rows, np.int32))
        own = pa.DictionaryArray.from_arrays(codes, pa.array([ulids.to_bytes(each.by)], pa.binary()))
        position = kept.schema.get_field_index(SOURCE_COLUMN)
        each.writer.write(pa.Table.from_batches([kept]).set_column(position, SOURCE_COLUMN, own))


def _close(root: str, each: _Open) -> Replaced:
    built, tally = each.writer.close(), each.tally
    out = ContentChecksum.from_hex(built.checksum, built.rows) + tally.checksum_dropped
    if out != tally.checksum_in:
        msg = (
            f"replacement of source {root}: {tally.rows_in} rows of checksum {tally.checksum_in.hex} in, "
            f"{out.rows} of {out.hex} out and dropped."
        )
        raise InvariantError(msg, "Nothing was uploaded; please report this.")
    return Replaced(built, tally.rows_in, tally.rows_in - built.rows)
