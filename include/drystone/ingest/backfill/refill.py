"""One ingest plan done anew in a task: its messages read again, parsed, and each source replaced by what came of it.

All is parsed and checked before the first block is uploaded. What comes to a stream is uploaded before what goes from
the other one, so that a message is for a while in both, and never in none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from drystone import ulids
from drystone.block.chunks import chunk_at
from drystone.block.meta import Group, Replacement
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.ingest import KafkaIngest
from drystone.engine.compact import failure_of
from drystone.engine.upload import upload_block
from drystone.errors import InputError, InvariantError
from drystone.ingest.backfill.held import Held, Offsets, Reads, held_by, kept_messages
from drystone.ingest.backfill.roots import Root
from drystone.ingest.kafka.build import write_rows
from drystone.ingest.kafka.fetch import fetch
from drystone.ingest.kafka.intake import Intake
from drystone.ingest.kafka.plans import Plan
from drystone.ingest.kafka.same_topic import SameTopic
from drystone.ingest.kafka.slicing import Slot
from drystone.ingest.kafka.spools import Order, Spools
from drystone.ingest.origin import Target
from drystone.ingest.parsers.protocol import Parser
from drystone.rows import columns

VERB = "backfill"


@dataclass(frozen=True, slots=True)
class Stream:
    """One of the two streams that a plan has rows in: where they go, its sources, and where the rows are now."""

    target: Target
    roots: tuple[Root, ...]
    reads: Reads

    @property
    def late(self) -> Root:
        """The source of what comes from the other stream."""
        return self.roots[-1]


@dataclass(frozen=True, slots=True)
class RefillTask:
    """All that is needed to do one plan anew, in any process.

    `kafka`: how to reach the messages from offset `kafka_from` on; None: nothing is there any more. `backups`: where
    the others are. `memory`: bytes that it may take.
    """

    key: str
    plan: Plan
    bucket: Bucket
    main: Stream
    dead: Stream
    parser: Parser
    kafka: KafkaIngest | None
    kafka_from: int
    backups: tuple[Reads, ...]
    memory: int
    clock: Clock


@dataclass(frozen=True, slots=True)
class RefillOutput:
    """What became of a task: new blocks by stream, with the source that each stands for, and why it failed."""

    key: str
    blocks: tuple[tuple[str, str, str], ...] = ()
    messages: int = 0
    bad: int = 0
    error: str = ""
    retryable: bool = False


def refill(task: RefillTask) -> RefillOutput:
    """Do one plan anew; never raises for what is wrong with it. What was done before is passed over."""
    try:
        roots = [root for stream in (task.main, task.dead) for root in stream.roots]
        if all(root.done for root in roots) or not any(root.known for root in roots):
            return RefillOutput(task.key)
        with tempfile.TemporaryDirectory(prefix="drystone-") as name:
            return _refill(task, Path(name))
    except Exception as error:  # noqa: BLE001 - the boundary: whatever happened to one plan is its result
        text, retryable = failure_of(error)
        return RefillOutput(task.key, error=text, retryable=retryable)


def _refill(task: RefillTask, folder: Path) -> RefillOutput:
    streams = (task.main, task.dead)
    orders = {each.target.stream: Order(each.target.config.sort_key) for each in streams}
    rules = task.main.target.config
    spools = Spools(folder / "spools", orders, task.memory, rules.compaction.row_group_rows)
    held = {each.target.stream: held_by(each.reads, each.roots) for each in streams}
    owners = {each.target.stream: _Owners(each, held[each.target.stream]) for each in streams}
    targets = (task.main.target, task.dead.target)
    intake = Intake(
        task.plan, targets, task.parser, spools, task.memory, lambda stream, offsets: owners[stream].of(offsets)
    )
    wanted = np.union1d(*(each.offsets for each in held.values()))
    for batch in _messages(task, wanted):
        intake.add(batch)
    if task.kafka is not None:
        # Offsets of a topic that was made again meanwhile are other messages.
        SameTopic(task.kafka, _group(task))(task.plan)
    if intake.messages != len(wanted):
        raise InvariantError(f"{intake.messages} messages of {task.plan} came, for {len(wanted)} rows.")
    intake.check(rules.kafka.max_bad_fraction)
    found: dict[tuple[str, str], list[Slot]] = {}
    for slot in spools.extents():
        found.setdefault((slot.stream, slot.split), []).append(slot)
    blocks: list[tuple[str, str, str]] = []
    text, retryable = "", False
    try:
        for stream, root in _order(streams, found):
            name = stream.target.stream
            slots = found.get((name, root.source), [])
            if not root.late and not root.known:
                continue  # Away for good, or not to be seen yet: then an empty block would take its rows away.
            for ulid in _replace(task, stream, root, slots, spools, folder):
                blocks.append((name, ulid, root.current))  # noqa: PERF401 - what was uploaded is told, whatever follows
    except Exception as error:  # noqa: BLE001 - each source is replaced by itself: what is uploaded is told and stays
        text, retryable = failure_of(error)
    return RefillOutput(task.key, tuple(blocks), intake.messages, intake.bad, text, retryable)


@dataclass(frozen=True, slots=True)
class _Owners:
    """To which source of a stream each message goes."""

    stream: Stream
    held: Held

    def of(self, offsets: pa.ChunkedArray) -> pa.StringArray:
        """Return the source of each offset: the one that has it, or the one for what comes from the other stream."""
        found = self.held.roots_of(columns.values(columns.whole(offsets)))
        roots = self.stream.roots
        late = roots.index(self.stream.late)
        names = pa.array([root.source for root in roots], pa.string())
        return names.take(pa.array(np.where(found < 0, late, found)))


def _messages(task: RefillTask, wanted: Offsets) -> Iterator[pa.RecordBatch]:
    """Yield each wanted message once, from Kafka or a backup; raise InputError if some are nowhere any more."""
    if not len(wanted):
        return
    plan, left = task.plan, np.ones(len(wanted), np.bool_)
    start, end = int(wanted[0]), int(wanted[-1]) + 1
    for batch in chain.from_iterable(_sources(task, start, end)):
        offsets = columns.values(batch.column("offset"))
        at = np.minimum(np.searchsorted(wanted, offsets), len(wanted) - 1)
        mine = (wanted[at] == offsets) & left[at]
        left[at[mine]] = False
        if mine.any():
            yield batch if mine.all() else batch.filter(pa.array(mine))
    if left.any():
        msg = f"{int(left.sum()):,} messages of {plan} are neither in Kafka nor in a backup, the first of them offset"
        step = "Nothing of this plan was changed: add the stream that has them to the configuration, or restore it."
        raise InputError(f"{msg} {wanted[left][0]}.", step)


def _sources(task: RefillTask, start: int, end: int) -> Iterator[Iterator[pa.RecordBatch]]:
    place = (task.plan.topic, task.plan.partition)
    kept_to = end if task.kafka is None else min(end, task.kafka_from)
    if start < kept_to:
        for backup in task.backups:
            yield kept_messages(backup, *place, start, kept_to)
    if task.kafka is not None and kept_to < end:
        yield fetch(task.kafka, _group(task), place, max(start, kept_to), end)


def _group(task: RefillTask) -> str:
    rules = task.main.target.config.kafka
    return rules.consumer_group or f"drystone.{task.plan.stream}.{task.plan.generation}"


def _order(streams: Sequence[Stream], found: Mapping[tuple[str, str], Sequence[Slot]]) -> Iterator[tuple[Stream, Root]]:
    """Yield the sources in the order in which they are replaced: first those that messages come to.

    Last those that none comes to: what another backfill has moved there is for a while in both, and not in none.
    """

    def turn(each: tuple[Stream, Root]) -> int:
        stream, root = each
        if not root.late:
            return 1
        return 0 if found.get((stream.target.stream, root.source)) else 2

    yield from sorted(((stream, root) for stream in streams for root in stream.roots), key=turn)


def _replace(
    task: RefillTask, stream: Stream, root: Root, slots: Sequence[Slot], spools: Spools, folder: Path
) -> Iterator[str]:
    """Upload what is to stand for a source: a group of a block for each chunk, or an empty block; yield the ULIDs."""
    if root.done:
        return
    if root.late and slots and not root.there:
        # What is replaced must be there: else half a replacement would be taken for rows that have got lost.
        yield _upload(task, stream.target, _Part(root.source), folder)
    group = ulids.new(task.clock())
    at_once = root.late and bool(slots)
    for index, slot in enumerate(slots or [None]):
        own = Group(id=group, size=len(slots), index=index) if len(slots) > 1 else None
        rows = iter(()) if slot is None else spools.take(slot)
        start = None if slot is None else slot.chunk_start
        yield _upload(task, stream.target, _Part(root.by, rows, start, own, root.retires, at_once=at_once), folder)


@dataclass(frozen=True, slots=True)
class _Part:
    """A block to be: rows of a source in one chunk, by default the chunk in which the plan was made, and its group.

    `at_once`: it is read without sync_delay. What comes over must be read before what it comes from is not any more,
    and that may lie in a stream with a shorter one.
    """

    source: str
    rows: Iterator[pa.Table] = field(default_factory=lambda: iter(()))
    start: int | None = None
    group: Group | None = None
    retires: tuple[Replacement, ...] = ()
    at_once: bool = False


def _upload(task: RefillTask, target: Target, part: _Part, folder: Path) -> str:
    """Upload a block; return its ULID."""
    start = task.plan.planned_at if part.start is None else part.start
    chunk = chunk_at(start, target.config.granularity.ingest)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        built = write_rows(part.rows, target, part.source, Path(name), task.memory)
        origin = target.origin(
            built, part.source, chunk, verb=VERB, group=part.group, retires=part.retires, ignore_delay=part.at_once
        )
        return upload_block(task.bucket, built, origin, target.config.times.upload_timeout, task.clock).ulid
