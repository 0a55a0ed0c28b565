"""The rows of a plan, apart by slice: in memory up to a budget that all slices share, on local disk beyond it.

Each slice comes out in the order of its sort key, whatever order its rows came in and however often they were spilled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from drystone.ingest.kafka.slicing import Slot
from drystone.rows import keys
from drystone.rows.fan_in import plan_fan_in
from drystone.rows.merge import merge_sorted
from drystone.rows.spill import spill

_MOST = 1 << 30
"""Bytes: a column of one sort holds less than the 2 GiB that Arrow's offsets reach."""
_BUFFERED = 4
"""The buffer has this part of the memory: a sort needs as much again, and then a merge its own share."""
_BUFFERED_IN_ORDER = 2
"""Where nothing is sorted."""
_SPILLED_ROWS = 8192
_BATCH = 64
"""A batch that is read back takes at most this part of the memory."""
_OFFSET = "kafka_offset"


@dataclass(frozen=True, slots=True)
class Order:
    """How the rows of a stream are sorted; `given`: they come in that order already, which a slice's writer checks."""

    sort_key: tuple[str, ...]
    given: bool = False


@dataclass(slots=True)
class _Run:
    """Sorted rows: the keys of the first and of the last, and the rows themselves, to be read once."""

    first: keys.Rank
    last: keys.Rank
    batches: Iterator[pa.RecordBatch]


@dataclass(slots=True)
class _Slice:
    rows: int = 0
    bytes: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    waiting: list[pa.Table] = field(default_factory=list)
    runs: list[_Run] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Extent:
    """What a slice holds: rows, the bytes that they take in memory, and their first and last offset."""

    rows: int
    bytes: int
    first_offset: int
    last_offset: int


class Spools:
    """Takes rows slot by slot, and gives them back sorted, each slot once."""

    def __init__(self, folder: Path, orders: Mapping[str, Order], memory: int, row_group_rows: int) -> None:
        """`folder`: for files, made if need be. `orders`: of each stream. `memory`: bytes that all of it may take."""
        self._folder = folder
        self._orders = orders
        self._memory = memory
        part = _BUFFERED_IN_ORDER if all(order.given for order in orders.values()) else _BUFFERED
        self._limit = min(memory // part, _MOST)
        self._row_group_rows = row_group_rows
        self._slices: dict[Slot, _Slice] = {}
        self._waiting = 0
        self._files = 0

    def add(self, slot: Slot, rows: pa.Table) -> None:
        """Take rows of a slot, at least one; they have a column `kafka_offset`."""
        mine = self._slices.setdefault(slot, _Slice())
        size = rows.nbytes
        found = pc.min_max(rows.column(_OFFSET))
        low, high = found["min"].as_py(), found["max"].as_py()
        mine.first_offset = low if mine.first_offset is None else min(mine.first_offset, low)
        mine.last_offset = high if mine.last_offset is None else max(mine.last_offset, high)
        mine.rows += rows.num_rows
        mine.bytes += size
        mine.waiting.append(rows)
        self._waiting += size
        if self._waiting > self._limit:
            self._spill()

    def extents(self) -> dict[Slot, Extent]:
        """Return what each slot holds, ordered by slot."""
        return {
            slot: Extent(mine.rows, mine.bytes, mine.first_offset or 0, mine.last_offset or 0)
            for slot, mine in sorted(self._slices.items(), key=lambda item: item[0].rank)
        }

    def take(self, slot: Slot) -> Iterator[pa.Table]:
        """Yield the slot's rows in order, and forget them. Raises InvariantError if what was spilled is not sorted."""
        mine = self._slices.pop(slot)
        order = self._orders[slot.stream]
        runs = mine.runs
        if mine.waiting:
            self._waiting -= sum(each.nbytes for each in mine.waiting)
            runs.append(_run(_sorted(mine, order), order))
        row_bytes = max(1, mine.bytes // mine.rows)
        if _follow(runs):
            return (pa.Table.from_batches([batch]) for batch in chain.from_iterable(run.batches for run in runs))
        plan = plan_fan_in(
            len(runs), row_bytes, self._batch_rows(row_bytes) * row_bytes, self._memory, self._row_group_rows
        )
        return merge_sorted(
            [run.batches for run in runs],
            order.sort_key,
            batch_rows=plan.batch_rows,
            out_rows=plan.out_rows,
            fan_in=plan.fan_in,
            temp=self._folder / f"merge-{self._files}",
        )

    def _spill(self) -> None:
        for slot, mine in self._slices.items():
            if not mine.waiting:
                continue
            order = self._orders[slot.stream]
            rows = _sorted(mine, order)
            row_bytes = max(1, rows.nbytes // rows.num_rows)
            self._files += 1
            path = self._folder / f"{self._files:06d}.arrow"
            first, last = _bounds(rows, order)
            mine.runs.append(_Run(first, last, spill(iter([rows]), path, self._batch_rows(row_bytes))))
        self._waiting = 0

    def _batch_rows(self, row_bytes: int) -> int:
        return max(1, min(_SPILLED_ROWS, self._memory // _BATCH // row_bytes))


def _sorted(mine: _Slice, order: Order) -> pa.Table:
    """Take what waits, in order."""
    rows = pa.concat_tables(mine.waiting)
    mine.waiting = []
    return rows if order.given else keys.sort_table(rows.combine_chunks(), order.sort_key)


def _run(rows: pa.Table, order: Order) -> _Run:
    return _Run(*_bounds(rows, order), iter(rows.to_batches()))


def _bounds(rows: pa.Table, order: Order) -> tuple[keys.Rank, keys.Rank]:
    first, last = (
        keys.key_at(keys.sort_arrays(rows.slice(row, 1), order.sort_key), 0) for row in (0, rows.num_rows - 1)
    )
    return keys.rank(first), keys.rank(last)


def _follow(runs: Sequence[_Run]) -> bool:
    """Tell whether each run begins where the one before it has ended."""
    return all(before.last <= after.first for before, after in pairwise(runs))
