"""Which block and row a message is in, and which messages a block has. Source: the design, "Ingest: trace".

Plans and metas decide where to look, by names first; of the blocks that are left only the columns are read that say
where a row's message lies, of the row groups that can have it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from drystone import ulids
from drystone.block.meta import Ulid
from drystone.clock import Clock
from drystone.config.ingest import POSITION
from drystone.engine.record import find_record
from drystone.errors import UsageError
from drystone.ingest.kafka.plans import Plan, Slice
from drystone.ingest.kafka.records import Committed
from drystone.ingest.kafka.streams import KafkaStream, late_roots
from drystone.reader.located import ROW, Place, rows_of
from drystone.reader.view import BlockRead, View, block_reads, look
from drystone.rows import expressions
from drystone.rows.arrow_schema import SOURCE_COLUMN, arrow_type
from drystone.rows.index import IndexEntry

_POSITION = [(name, arrow_type(kind)) for name, kind in POSITION.items()]


@dataclass(frozen=True, slots=True)
class Where:
    """A message in a stream: its block and row, from 0, or why there is none (`state`)."""

    stream: str
    group: str
    topic_id: str
    state: str
    plan: str = ""
    block: str = ""
    file: str = ""
    row: int | None = None


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one partition that a block has: at most `rows`, between two offsets, both included."""

    topic: str
    topic_id: str
    partition: int
    first_offset: int
    last_offset: int
    rows: int
    source: Ulid


@dataclass(frozen=True, slots=True)
class BlockTrace:
    """What messages a block has, and which blocks of the backups hold them as they came, by stream."""

    stream: str
    block: Ulid
    ranges: list[Range]
    raw: Mapping[str, list[Ulid]] = field(default_factory=dict)


def trace_message(streams: Sequence[KafkaStream], topic: str, partition: int, offset: int, now: Clock) -> list[Where]:
    """Return where the message is, in every stream that has met the topic; a topic that was made again counts apart."""
    found: list[Where] = []
    for stream in streams:
        for root in stream.records.roots():
            if root.topic == topic:
                found += _in_stream(stream, root.topic_id, (topic, partition, offset), now)
    return found


def trace_block(streams: Sequence[KafkaStream], ulid: str, now: Clock) -> BlockTrace:
    """Return what messages a block has; raise UsageError if no stream has such a block."""
    views = {each.name: look(each.bucket, each.name, now) for each in streams if find_record(each.bucket, each.name)}
    for stream in streams:
        view = views.get(stream.name)
        folder = view.snapshot.folders.get(ulid) if view is not None else None
        if view is None or folder is None or folder.meta is None:
            continue
        known = stream.records.of_sources(view.timeline.gone.family(folder.sources))
        ranges = [_range(plan, part) for plan, part in known.values() if part.stream == stream.name]
        rest = {each for each in folder.sources if known.keys().isdisjoint(view.timeline.gone.family([each]))}
        ranges += _counted(stream, view, ulid, rest) if rest else []
        backups = [each for each in streams if each.group == "backup" and each is not stream and each.name in views]
        raw = {each.name: blocks for each in backups if (blocks := _raw(each, views[each.name], ranges))}
        ordered = sorted(ranges, key=lambda each: (each.topic, each.partition, each.first_offset, each.source))
        return BlockTrace(stream.name, ulid, ordered, raw)
    names = ", ".join(stream.name for stream in streams)
    raise UsageError(f"no stream of Kafka has a block {ulid} ({names or 'there are none'}).", "Was it deleted?")


def _counted(stream: KafkaStream, view: View, ulid: str, sources: set[str]) -> Iterator[Range]:
    """Yield the ranges of sources that no plan names, for a backfill brought them: by a look at their rows."""
    topics = {root.topic: root.topic_id for root in stream.records.roots()}
    columns = [*POSITION, SOURCE_COLUMN]
    tables = [
        rows.select(columns).cast(pa.schema([*_POSITION, (SOURCE_COLUMN, pa.binary())]))
        for read in block_reads(view, None, None)
        if read.ulid == ulid
        for _, rows in rows_of(Place.of(view), read, columns, expressions.in_sources(sources))
    ]
    if not tables:
        return
    topic, partition, offset = POSITION
    grouped = pa.concat_tables(tables).group_by([SOURCE_COLUMN, topic, partition])
    for row in grouped.aggregate([(offset, "min"), (offset, "max"), (offset, "count")]).to_pylist():
        place = (row[topic], topics.get(row[topic], ""), row[partition])
        bounds = (row[f"{offset}_min"], row[f"{offset}_max"], row[f"{offset}_count"])
        yield Range(*place, *bounds, ulids.from_bytes(row[SOURCE_COLUMN]))


def _range(plan: Plan, part: Slice) -> Range:
    place = (plan.topic, plan.topic_id, plan.partition)
    return Range(*place, part.first_offset, part.last_offset, part.rows, part.source)


def _raw(backup: KafkaStream, view: View, ranges: Iterable[Range]) -> list[str]:
    """Return the blocks of a backup that hold the messages of these ranges as they came."""
    sources: set[str] = set()
    for each in ranges:
        plans = backup.records.committed(each.topic_id, each.partition, each.first_offset, each.last_offset + 1)
        sources |= {
            part.source
            for found in plans
            for part in found.slices.slices
            if part.first_offset <= each.last_offset and each.first_offset <= part.last_offset
        }
    return sorted(read.ulid for read in reads_of(view, sources))


def reads_of(view: View, sources: Iterable[str]) -> list[BlockRead]:
    """Return what to read for the rows of these sources, or of what has taken their place."""
    replaced = view.timeline.gone.replaced
    wanted = {replaced.get(source, source) for source in sources}
    return [read for read in block_reads(view, None, None) if not wanted.isdisjoint(read.group.sources - read.excluded)]


def _in_stream(stream: KafkaStream, topic_id: str, message: tuple[str, int, int], now: Clock) -> Iterator[Where]:
    _, partition, offset = message
    plans = list(stream.records.committed(topic_id, partition, offset, offset + 1))
    place = (stream.name, stream.group, topic_id)
    if not plans:
        yield Where(*place, "in no committed plan: not ingested yet, or from before the stream began")
        return
    view, plan = look(stream.bucket, stream.name, now), str(plans[0].plan)
    sources = _sources(plans[0], stream.name, offset, view)
    found = False
    for read in reads_of(view, sources):
        for file, row in _rows(view, read, message):
            found = True
            yield Where(*place, "visible", plan, read.ulid, file, row)
    if not found:
        yield from _absent(view, place, plan, sources, gap=plans[0].plan.gap)


def _sources(found: Committed, stream: str, offset: int, view: View) -> set[str]:
    parts = (part for part in found.slices.slices if part.stream == stream)
    sources = {part.source for part in parts if part.first_offset <= offset <= part.last_offset}
    known = frozenset[str]().union(*(group.sources for group in view.timeline.groups.values()))
    return sources.union(late_roots(found.plan, stream, known | view.timeline.gone.sources))


def _rows(view: View, read: BlockRead, message: tuple[str, int, int]) -> Iterator[tuple[str, int]]:
    def may_have(entry: IndexEntry) -> bool:
        bounds = dict(zip(view.record.sort_key, zip(entry.mins, entry.maxs, strict=True), strict=False))
        for name, value in zip(POSITION, message, strict=True):
            low, high = bounds.get(name, (None, None))
            if low is not None and high is not None and not low <= value <= high:  # type: ignore[operator]
                return False
        return True

    keep = pc.scalar(True)  # noqa: FBT003 - a scalar's value
    for name, value in zip(POSITION, message, strict=True):
        keep &= pc.field(name) == value
    for file, rows in rows_of(Place.of(view), read, list(POSITION), keep, may_have):
        yield from ((file, row) for row in rows.column(ROW).to_pylist())


def _absent(view: View, place: tuple[str, str, str], plan: str, sources: set[str], *, gap: bool) -> Iterator[Where]:
    if gap:
        yield Where(*place, "lost: Kafka had deleted it before it was read", plan)
        return
    waiting = [group for group in view.timeline.pending.values() if not sources.isdisjoint(group.sources)]
    for group in waiting:
        for block in group.members:
            yield Where(*place, "in one of the blocks that are not ready yet, if at all", plan, block.ulid)
    if not waiting:
        yield Where(*place, "has no row here: it is in the other stream, erased, expired or retired", plan)
