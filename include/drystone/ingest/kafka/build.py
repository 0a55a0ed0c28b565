"""What a task does with the messages of one plan: rows, slices, blocks.

Source: the design, "Ingest: from Kafka" (upload). The whole range is read, parsed, checked and spooled on local disk;
then the slices object is written, which fixes what the plan comes to; then one block for each slice is uploaded. So
nothing is uploaded of a plan that is refused, and whoever does it again comes to the same sources and rows.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from drystone import ulids
from drystone.block.chunks import chunk_at
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.ingest import POSITION
from drystone.engine.upload import upload_block
from drystone.errors import InvariantError
from drystone.ingest.kafka.intake import Intake
from drystone.ingest.kafka.plans import Plan, Slice, Slices
from drystone.ingest.kafka.settle import settle_slices
from drystone.ingest.kafka.slicing import Slot
from drystone.ingest.kafka.spools import Extent, Order, Spools
from drystone.ingest.origin import Target
from drystone.ingest.parsers.protocol import Parser
from drystone.rows.arrow_schema import SOURCE_COLUMN, to_arrow
from drystone.rows.writer import Built, ChunkWriter


class BuiltSlice(BaseModel):
    """A slice that a task came across: its block, of `bytes`, by ULID, or "" where the source had one before."""

    stream: str
    source: str
    ulid: str
    rows: int
    bytes: int = 0


class BuiltPlan(BaseModel):
    """What a task made of a plan: all its slices. `messages`: how many it read, `bad`: how many gave no row."""

    topic: str
    partition: int
    start: int
    attempt: int
    messages: int
    bad: int
    slices: list[BuiltSlice]


@dataclass(frozen=True)
class PlanBuilder:
    """Turns the messages of plans, one after another, into uploaded blocks; yields a line of JSON for each plan.

    `plans`: by topic and partition. `parser`: None for a backup. `dead`: where messages go that give no row. Slices in
    `present` have a block already and are passed over. `memory`: bytes that a task may take, whatever a plan's size.
    `confirm`: called when a plan's messages were read and nothing is uploaded; raises if they may be another topic's.

    Raises InputError where too many messages are bad, or one is larger than memory allows; InvariantError where another
    attempt came to other slices; and what `upload_block` raises. Blocks that are there by then stay: they are right.
    """

    bucket: Bucket
    plans: Mapping[tuple[str, int], Plan]
    main: Target
    dead: Target | None
    parser: Parser | None
    max_bad_fraction: float
    present: frozenset[str]
    memory: int
    clock: Clock
    confirm: Callable[[Plan], None] | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run in a task over batches of MESSAGES, each plan's together; what is yielded has one column, `result`."""
        filled = (batch for batch in batches if batch.num_rows)
        for place, mine in groupby(filled, key=_place):
            plan = self.plans.get(place)
            if plan is None:
                raise InvariantError(f"messages of {place[0]}-{place[1]} came, and no plan asks for them.")
            yield pa.RecordBatch.from_pydict({"result": [self._build(plan, mine).model_dump_json()]})

    def _build(self, plan: Plan, batches: Iterator[pa.RecordBatch]) -> BuiltPlan:
        with tempfile.TemporaryDirectory(prefix="drystone-") as name:
            folder = Path(name)
            spools = Spools(folder / "spools", self._orders(), self.memory, self._row_group_rows)
            intake = Intake(plan, (self.main, self.dead), self.parser, spools, self.memory)
            for batch in batches:
                intake.take(batch)
            if self.confirm is not None:
                self.confirm(plan)
            intake.check(self.max_bad_fraction)
            slots = spools.extents()
            slices = {slot: self._slice(plan, slot, extent) for slot, extent in slots.items()}
            found = Slices(
                attempt=plan.attempt, slices=tuple(slices.values()), messages=intake.messages, bad=intake.bad
            )
            settle_slices(self.bucket, plan, found)
            built = [self._upload(spools, slot, each, folder / "block") for slot, each in slices.items()]
        return BuiltPlan(
            topic=plan.topic,
            partition=plan.partition,
            start=plan.start,
            attempt=plan.attempt,
            messages=intake.messages,
            bad=intake.bad,
            slices=built,
        )

    @property
    def _targets(self) -> dict[str, Target]:
        return {each.stream: each for each in (self.main, self.dead) if each is not None}

    @property
    def _row_group_rows(self) -> int:
        return self.main.config.compaction.row_group_rows

    def _orders(self) -> dict[str, Order]:
        # Messages come in the order of their offsets, and a plan has one topic and partition.
        return {
            name: Order(each.config.sort_key, given=each.config.sort_key == tuple(POSITION))
            for name, each in self._targets.items()
        }

    def _slice(self, plan: Plan, slot: Slot, extent: Extent) -> Slice:
        granularity = self._targets[slot.stream].config.granularity.ingest
        unknown = slot.chunk_start is None
        start = chunk_at(plan.planned_at, granularity).start if slot.chunk_start is None else slot.chunk_start
        return Slice(
            stream=slot.stream,
            chunk_start=start,
            granularity=granularity,
            split=slot.split,
            unknown=unknown,
            source=plan.source(slot.stream, granularity, slot.chunk_start, slot.split),
            rows=extent.rows,
            first_offset=extent.first_offset,
            last_offset=extent.last_offset,
        )

    def _upload(self, spools: Spools, slot: Slot, each: Slice, folder: Path) -> BuiltSlice:
        if each.source in self.present:
            return BuiltSlice(stream=each.stream, source=each.source, ulid="", rows=each.rows)
        target = self._targets[slot.stream]
        with tempfile.TemporaryDirectory(dir=folder.parent, prefix="block-") as name:
            built = write_rows(spools.take(slot), target, each.source, Path(name), self.memory)
            if built.rows != each.rows:
                msg = f"{each.rows} rows of {slot} were spooled, and {built.rows} came out."
                raise InvariantError(msg, "Nothing of it was uploaded; please report this.")
            chunk = chunk_at(each.chunk_start, each.granularity)
            origin = target.origin(built, each.source, chunk)
            meta = upload_block(self.bucket, built, origin, target.config.times.upload_timeout, self.clock)
        return BuiltSlice(stream=each.stream, source=each.source, ulid=meta.ulid, rows=built.rows, bytes=built.size)


def write_rows(tables: Iterator[pa.Table], target: Target, source: str, folder: Path, memory: int) -> Built:
    """Write rows that come in order as the one block of a source, into `folder`, within `memory` bytes."""
    config = target.config
    schema = to_arrow(target.schema, with_source=True)
    writer = ChunkWriter(
        folder,
        schema,
        config.sort_key,
        config.time_column,
        row_group_rows=config.compaction.row_group_rows,
        row_group_bytes=memory // 8,
    )
    name = pa.array([ulids.to_bytes(source)], pa.binary())
    for table in tables:
        own = pa.DictionaryArray.from_arrays(pa.array(np.zeros(table.num_rows, np.int32)), name)
        writer.write(table.select(target.names).append_column(SOURCE_COLUMN, own))
    return writer.close()


def _place(batch: pa.RecordBatch) -> tuple[str, int]:
    return batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py()
