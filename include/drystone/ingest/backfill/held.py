"""Which messages each source has rows of, as readers see them now; and the messages themselves, from a backup."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from drystone import ulids
from drystone.config.ingest import POSITION, RAW_TIME
from drystone.ingest.backfill.roots import Root
from drystone.ingest.kafka.headers import from_text
from drystone.ingest.kafka.messages import MESSAGES
from drystone.reader.located import Place, rows_of
from drystone.reader.view import BlockRead
from drystone.rows import columns, expressions
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.index import IndexEntry

_TOPIC, _PARTITION, _OFFSET = POSITION
Offsets = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Reads:
    """What to read of a stream: `blocks` of it that have what is looked for."""

    place: Place
    blocks: tuple[BlockRead, ...]


@dataclass(frozen=True, slots=True)
class Held:
    """Offsets in order, and the position of each one's root among the roots of a stream."""

    offsets: Offsets
    roots: NDArray[np.int32]

    def roots_of(self, offsets: Offsets) -> NDArray[np.int32]:
        """Return the root of each of these offsets, -1 for one that none holds."""
        if not len(self.offsets):
            return np.full(len(offsets), -1, np.int32)
        at = np.minimum(np.searchsorted(self.offsets, offsets), len(self.offsets) - 1)
        return np.where(self.offsets[at] == offsets, self.roots[at], -1).astype(np.int32)


def held_by(reads: Reads, roots: Sequence[Root]) -> Held:
    """Return the offsets that the roots of one stream have rows of. What an edit took away is not among them."""
    codes = {root.current: number for number, root in enumerate(roots)}
    keep = expressions.in_sources(codes) if codes else pc.scalar(False)  # noqa: FBT003 - a scalar's value
    offsets: list[Offsets] = []
    owners: list[NDArray[np.int32]] = []
    for read in reads.blocks:
        for _, rows in rows_of(reads.place, read, [_OFFSET, SOURCE_COLUMN], keep):
            named = columns.whole(rows.column(SOURCE_COLUMN)).cast(pa.binary()).dictionary_encode()
            own = np.array([codes[ulids.from_bytes(raw)] for raw in named.dictionary.to_pylist()], np.int32)
            offsets.append(columns.values(columns.whole(rows.column(_OFFSET))).astype(np.int64))
            owners.append(own[columns.codes(named)])
    if not offsets:
        return Held(np.empty(0, np.int64), np.empty(0, np.int32))
    every, owner = np.concatenate(offsets), np.concatenate(owners)
    order = np.argsort(every, kind="stable")
    return Held(every[order], owner[order])


def kept_messages(reads: Reads, topic: str, partition: int, start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the messages of a partition that a backup has with offsets in [start, end), batches in no order.

    What an edit took away is not among them.
    """
    for rows in kept_rows(reads, topic, partition, start, end):
        yield as_messages(rows)


def kept_rows(reads: Reads, topic: str, partition: int, start: int, end: int) -> Iterator[pa.Table]:
    """Yield the rows of these messages."""

    def may_have(entry: IndexEntry) -> bool:
        # Sorted by topic, partition and offset: bounds of later columns hold where the first ones do not vary.
        low, high = entry.mins, entry.maxs
        if not _between(low[0], topic, high[0]):
            return False
        if low[0] != high[0]:
            return True
        return _between(low[1], partition, high[1]) and (
            low[1] != high[1] or (_below(low[2], end) and not _below(high[2], start))
        )

    keep = (pc.field(_TOPIC) == topic) & (pc.field(_PARTITION) == partition)
    keep &= (pc.field(_OFFSET) >= start) & (pc.field(_OFFSET) < end)
    names = [*POSITION, RAW_TIME, "key", "value", "headers"]
    for read in reads.blocks:
        for _, rows in rows_of(reads.place, read, names, keep, may_have):
            yield rows


def as_messages(rows: pa.Table) -> pa.RecordBatch:
    """Return rows of a backup, or dead letters, as the messages that they were."""
    found: Mapping[str, pa.Array] = {name: columns.whole(rows.column(name)) for name in rows.column_names}
    written = found[RAW_TIME].cast(pa.timestamp("ms", "UTC"))
    arrays = [found[_TOPIC], found[_PARTITION], found[_OFFSET], written, found["key"], found["value"]]
    plain = [array.cast(field.type) for array, field in zip(arrays, MESSAGES, strict=False)]
    headers = from_text(found["headers"].cast(pa.string()))
    return pa.RecordBatch.from_arrays([*plain, headers], schema=MESSAGES)


def _between(low: object, value: object, high: object) -> bool:
    return low is None or high is None or low <= value <= high  # type: ignore[operator]


def _below(bound: object, limit: int) -> bool:
    return isinstance(bound, int) and bound < limit
