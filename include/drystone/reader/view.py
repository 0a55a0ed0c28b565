"""A reader's view of a stream at one moment, and what it has to read of each block.

Everything that reads (scan, Spark, DuckDB by `files`) reads what `block_reads` says, so that all see the same rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection
from dataclasses import dataclass

from drystone import clock
from drystone.block import keys
from drystone.block.meta import Meta
from drystone.block.record import StreamRecord
from drystone.block.schema import Schema
from drystone.bucket import open_bucket
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.engine.record import read_record, read_schema
from drystone.engine.unreadable import judge
from drystone.errors import BucketError, DamagedStreamError, UsageError
from drystone.rows.arrow_schema import unify
from drystone.timeline.groups import Group
from drystone.timeline.pending import PendingEdit
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve
from drystone.tracker import ListingTracker, Tracker


class IncompleteReadWarning(UserWarning):
    """A read went on although rows are missing, because it was told to."""


@dataclass(frozen=True, slots=True)
class View:
    """A stream as one observation shows it. `record.generation` is the one that is read."""

    bucket: Bucket
    record: StreamRecord
    snapshot: Snapshot
    timeline: Timeline


@dataclass(frozen=True, slots=True)
class ChunkFile:
    """A chunk file: its name in the block, its key, its size in bytes."""

    name: str
    key: str
    size: int


@dataclass(frozen=True, slots=True)
class BlockRead:
    """What to read of one block: all rows of its files but those of `excluded` sources and those that `edits` take.

    `whole_in_range`: no row lies outside the time range that was asked for. A row without a time lies in none.
    """

    group: Group
    ulid: str
    meta: Meta
    files: tuple[ChunkFile, ...]
    excluded: frozenset[str]
    edits: tuple[PendingEdit, ...]
    whole_in_range: bool


def look(
    bucket: Bucket | str,
    stream: str,
    now: int | Clock | None = None,
    tracker: Tracker | None = None,
    generation: int | None = None,
) -> View:
    """Observe a stream and resolve it. `bucket`: a bucket or its address; `now`: ms, or a clock (the machine's).

    `generation`: whose rows are read, by default the newest's. Raises UsageError if there is no such stream or no such
    generation yet, BucketError if the store fails, or if it took longer by the clock than
    a read may: what was ready when it began may be gone from what it then saw, and what took its place too young.
    """
    opened = open_bucket(bucket) if isinstance(bucket, str) else bucket
    record = _record_of(opened, stream, generation)
    at = now if isinstance(now, int) else (now or clock.system)()
    snapshot = (tracker or ListingTracker(opened, stream)).observe(at)
    took = 0 if isinstance(now, int) else (now or clock.system)() - at
    if took > record.rules.read_timeout:
        msg = f"looking at stream {stream} took {took // 1000} s, longer than its read_timeout."
        raise BucketError(msg, "Read again; a bucket of so many blocks needs a longer read_timeout and delete_delay.")
    timeline = judge(opened, snapshot, resolve(snapshot, record.rules, at), record.generation)
    return View(opened, record, snapshot, timeline)


def _record_of(bucket: Bucket, stream: str, generation: int | None) -> StreamRecord:
    record = read_record(bucket, stream)
    if generation is None or generation == record.generation:
        return record
    if generation > record.generation:
        msg = f"stream {stream} has no generation {generation}: its newest is {record.generation}."
        raise UsageError(msg, "Read that one; the first ingest of a new generation makes it known.")
    return record.model_copy(update={"generation": generation})


def block_reads(
    view: View,
    start: int | None,
    end: int | None,
    *,
    allow_incomplete: bool = False,
    without: Collection[str] = (),
) -> list[BlockRead]:
    """Return what to read for rows with start <= time < end (ms), each visible group's blocks next to each other.

    A row without a time is in no such range; without start and end, every row is read.

    `without`: sources that were read already. Raises DamagedStreamError if rows of that range cannot be read, unless
    `allow_incomplete`: then it warns, naming what is missing.
    """
    _check_damage(view, start, end, allow_incomplete=allow_incomplete)
    reads: list[BlockRead] = []
    done = frozenset(without)
    for visible in view.timeline.visible.values():
        group = visible.group
        if not _is_ours(group, view) or not _touches(group.min_time, group.max_time, start, end):
            continue
        excluded = visible.excluded | (done & group.sources)
        if excluded >= group.sources:
            continue
        for block in group.members:
            meta = view.snapshot.folders[block.ulid].meta
            if meta is None or block.rows == 0:
                continue
            within = (start is None or start <= block.min_time) and (end is None or block.max_time <= end)
            within &= (start is None and end is None) or not _unknown_times(meta)
            chunks = chunk_files(view.record.stream, meta)
            reads.append(BlockRead(group, block.ulid, meta, chunks, excluded, visible.edits, within))
    return reads


def schema_of(view: View) -> Schema:
    """Return the schema that holds the rows of every block that is read; raise InputError where types do not fit."""
    fingerprints: dict[str, None] = {}
    for visible in view.timeline.visible.values():
        if not _is_ours(visible.group, view):
            continue
        for block in visible.group.members:
            meta = view.snapshot.folders[block.ulid].meta
            extension = meta.drystone if meta is not None else None
            if extension is not None:
                fingerprints[extension.schema_fingerprint] = None
    return unify(read_schema(view.bucket, view.record.stream, each) for each in fingerprints)


def _is_ours(group: Group, view: View) -> bool:
    """Whether the group holds rows of the stream as they came in, of the generation that readers are to see."""
    return group.pattern.generation == view.record.generation and not group.pattern.resolution


def _unknown_times(meta: Meta) -> int:
    return meta.drystone.unknown_times if meta.drystone is not None else 0


def chunk_files(stream: str, meta: Meta) -> tuple[ChunkFile, ...]:
    """Return the files of a block that hold its rows."""
    return tuple(
        ChunkFile(file.rel_path, keys.block(stream, meta.ulid, file.rel_path), file.size_bytes or 0)
        for file in meta.thanos.files
        if file.rel_path.startswith("chunks/")
    )


def _check_damage(view: View, start: int | None, end: int | None, *, allow_incomplete: bool) -> None:
    damage = [
        each
        for each in view.timeline.damage
        if each.min_time is None or each.max_time is None or _touches(each.min_time, each.max_time, start, end)
    ]
    if not damage:
        return
    shown = "; ".join(each.text.rstrip(".") for each in damage[:3])
    more = f" (and {len(damage) - 3} more)" if len(damage) > 3 else ""  # noqa: PLR2004 - as many as were shown
    text = f"stream {view.record.stream}: rows are missing: {shown}{more}."
    if not allow_incomplete:
        raise DamagedStreamError(text, "`drystone verify` lists everything; allow_incomplete reads what is there.")
    warnings.warn(text, IncompleteReadWarning, stacklevel=4)


def _touches(min_time: int, max_time: int, start: int | None, end: int | None) -> bool:
    return (start is None or max_time > start) and (end is None or min_time < end)
