"""Streams and blocks in one line each: what every list of them shows, in a terminal or on a page."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drystone import ulids
from drystone.block.chunks import Chunk
from drystone.block.meta import TimeChunk
from drystone.block.states import State
from drystone.reader.stats import count
from drystone.reader.view import View
from drystone.timeline.explain import explain
from drystone.timeline.timeline import states


@dataclass(frozen=True, slots=True)
class StreamLine:
    """A stream in a few numbers. `bytes` and `rows` are those of the visible blocks. `error`: why there are none."""

    stream: str
    bucket: str
    visible: int = 0
    blocks: int = 0
    marked: int = 0
    rows: int = 0
    bytes: int = 0
    problems: int = 0
    damage: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class BlockLine:
    """A block in one line. Times are ms since the epoch, `age` is ms since its upload began."""

    ulid: str
    state: State
    why: str
    level: int | None
    chunk: str
    min_time: int | None
    max_time: int | None
    rows: int | None
    bytes: int
    files: int
    sources: int
    group: str
    group_index: int
    group_size: int
    age: int


def stream_line(view: View) -> StreamLine:
    """Return what a view shows of a stream in a few numbers."""
    stats, timeline = count(view), view.timeline
    return StreamLine(
        stream=view.record.stream,
        bucket=view.bucket.url,
        visible=stats.blocks_visible,
        blocks=stats.blocks_total,
        marked=stats.blocks_marked,
        rows=stats.rows,
        bytes=stats.bytes,
        problems=len(timeline.problems),
        damage=len(timeline.damage),
    )


def block_lines(view: View) -> Iterator[BlockLine]:
    """Yield a line for every block folder, in the order of their ULIDs, which is that of their age."""
    times = view.record.rules
    found = states(view.snapshot, view.timeline, times)
    reasons = explain(view.snapshot, view.timeline, found, times)
    for ulid, folder in sorted(view.snapshot.folders.items()):
        meta = folder.meta
        extension = meta.drystone if meta is not None else None
        group = extension.group if extension is not None else None
        yield BlockLine(
            ulid=ulid,
            state=found[ulid],
            why=reasons[ulid],
            level=None if meta is None else meta.compaction.level,
            chunk="" if extension is None else _label(extension.time_chunk),
            min_time=None if meta is None else meta.min_time,
            max_time=None if meta is None else meta.max_time,
            rows=None if meta is None else meta.stats.num_samples,
            bytes=folder.size,
            files=sum(name.startswith("chunks/") for name in folder.files),
            sources=len(folder.sources),
            group=ulid if group is None else group.id,
            group_index=0 if group is None else group.index,
            group_size=1 if group is None else group.size,
            age=view.timeline.at - ulids.time_of(ulid),
        )


def _label(chunk: TimeChunk) -> str:
    return Chunk(chunk.start, chunk.end, chunk.granularity).label
