"""Which rows of an input a rewrite leaves out, and why; each is counted once, under the first reason that fits.

Source: the design, "Compaction: executing" (deduplicated by source, retired, erased).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.acero as ac
import pyarrow.compute as pc

from drystone import ulids
from drystone.errors import InputError
from drystone.rows import columns
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.checksum import ContentChecksum
from drystone.rows.columns import Bools


@dataclass(frozen=True, slots=True)
class Drops:
    """What one input does not pass on.

    `owned_elsewhere`: sources that another input of the same rewrite gives. `retired`: sources that are gone. `erased`:
    expressions that are true for rows that are gone (null is not true), as the pending edits of this input say.
    """

    owned_elsewhere: AbstractSet[str] = frozenset()
    retired: AbstractSet[str] = frozenset()
    erased: Sequence[pc.Expression] = ()

    def __bool__(self) -> bool:
        """Tell whether there is anything to look for."""
        return bool(self.owned_elsewhere or self.retired or self.erased)


@dataclass(slots=True)
class Tally:
    """Rows that came in and rows that were dropped, with their checksums, in the making."""

    rows_in: int = 0
    deduplicated: int = 0
    retired: int = 0
    erased: int = 0
    checksum_in: ContentChecksum = field(default_factory=ContentChecksum)
    checksum_dropped: ContentChecksum = field(default_factory=ContentChecksum)


def without(
    batches: Iterator[pa.RecordBatch], drops: Drops, tally: Tally, *, sum_input: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows that stay; count all rows, sum up those that go, and those that come in if `sum_input`."""
    for batch in batches:
        tally.rows_in += batch.num_rows
        if sum_input:
            tally.checksum_in.update(batch)
        yield _kept(batch, drops, tally) if drops else batch


def _kept(batch: pa.RecordBatch, drops: Drops, tally: Tally) -> pa.RecordBatch:
    gone = np.zeros(batch.num_rows, np.bool_)
    tally.deduplicated += _mark(gone, from_sources(batch, drops.owned_elsewhere))
    tally.retired += _mark(gone, from_sources(batch, drops.retired))
    for expression in drops.erased:
        tally.erased += _mark(gone, _matches(batch, expression))
    if not gone.any():
        return batch
    mask = pa.array(gone)
    tally.checksum_dropped.update(batch.filter(mask))
    return batch.filter(pc.invert(mask))


def _mark(gone: Bools, hits: Bools | None) -> int:
    """Add hits to what is gone already; return how many are new."""
    if hits is None:
        return 0
    before = int(np.count_nonzero(gone))
    np.logical_or(gone, hits, out=gone)
    return int(np.count_nonzero(gone)) - before


def from_sources(batch: pa.RecordBatch, sources: AbstractSet[str]) -> Bools | None:
    """Return which rows are of these sources, None if none can be; raise InputError for rows without a source."""
    if not sources:
        return None
    if SOURCE_COLUMN not in batch.schema.names:
        raise InputError(f"rows without {SOURCE_COLUMN} cannot be told apart by source.")
    array = batch.column(SOURCE_COLUMN)
    raw = pa.array([ulids.to_bytes(source) for source in sources], columns.plain_type(array.type))
    if not pa.types.is_dictionary(array.type):
        return np.asarray(pc.is_in(array, value_set=raw))
    # A batch has few sources: they are looked up once each, not once a row.
    hit = np.asarray(pc.is_in(array.dictionary, value_set=raw))
    if not hit.any():
        return None
    found = hit.take(columns.codes(array), mode="clip")
    missing = columns.nulls(array)
    return found if missing is None else found & ~missing


def _matches(batch: pa.RecordBatch, expression: pc.Expression) -> Bools:
    """Return the rows for which the expression is true."""
    source = ac.Declaration("table_source", ac.TableSourceNodeOptions(pa.Table.from_batches([batch])))
    project = ac.Declaration("project", ac.ProjectNodeOptions([expression], ["hit"]))
    # One thread keeps the order of the rows.
    table = ac.Declaration.from_sequence([source, project]).to_table(use_threads=False)
    return np.asarray(pc.fill_null(columns.whole(table.column("hit")), False))  # noqa: FBT003 - a value, not a flag
