"""What the block page shows of a stream: pure functions of one look at it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from drystone.block.states import State
from drystone.config.model import StreamConfig
from drystone.reader.lines import block_lines
from drystone.reader.view import View
from drystone.timeline.timeline import states
from drystone.verbs.fleet import numbers_of
from drystone.verbs.overview import Overview
from drystone.viewer.model import BlockTable, Kept, SizeBin, Summary, ToDelete

_SHOWN = 100
_SMALLEST_BIN = 1 << 12
_STEP = 4


def summary_of(view: View, config: StreamConfig) -> Summary:
    """Return a stream in figures."""
    snapshot, timeline = view.snapshot, view.timeline
    stream, at, target = view.record.stream, timeline.at, config.compaction.target_block_bytes
    found = states(snapshot, timeline, view.record.rules)
    numbers = numbers_of(view, target)
    row = Overview(stream=stream, bucket=view.bucket.url, at=at, numbers=numbers, lag_limit=config.lag_limit)
    young = (snapshot.folders[ulid].meta for ulid, state in found.items() if state is State.FRESH)
    return Summary(
        stream=stream,
        bucket=view.bucket.url,
        at=at,
        generation=view.record.generation,
        target_block_bytes=target,
        numbers=numbers,
        ingest_lag=numbers.ingest_lag(at),
        event_lag=numbers.event_lag(at),
        wrong=row.wrong(at),
        waiting=sum(meta.stats.num_samples for meta in young if meta is not None),
        to_delete=_to_delete(view, found),
        sizes=size_bins((block.size for group in timeline.visible.groups for block in group.members), target),
        holds=tuple(f"{hold.owner}: {hold.reason}" for hold in snapshot.holds if hold.expires > at),
        pins=sum(pin.expires > at for pin in snapshot.pins),
        edits=len(snapshot.edits),
        damage=timeline.damage[:_SHOWN],
        problems=timeline.problems[:_SHOWN],
    )


def kept_of(row: Overview, now: int) -> Kept:
    """Return what is kept of a stream, as of now (ms)."""
    lag = row.numbers.ingest_lag(now) if row.numbers is not None else None
    return Kept(stream=row.stream, at=row.at, numbers=row.numbers, ingest_lag=lag, wrong=row.wrong(now))


def _to_delete(view: View, found: dict[str, State]) -> ToDelete:
    sizes: Counter[State] = Counter()
    for ulid, state in found.items():
        sizes[state] += view.snapshot.folders[ulid].size
    return ToDelete(
        marked=sizes[State.MARKED] + sizes[State.DELETABLE] + sizes[State.DELETING],
        superseded=sizes[State.HEALTHY_OVERLAPPED],
        partial=sizes[State.PARTIAL],
    )


def size_bins(sizes: Iterable[int], target: int) -> tuple[SizeBin, ...]:
    """Return the blocks by size, each bin four times as wide as the one before; no empty one at either end.

    `target`: the size that compaction aims at.
    """
    blocks: Counter[int] = Counter()
    total: Counter[int] = Counter()
    for size in sizes:
        number = _bin_of(size)
        blocks[number] += 1
        total[number] += size
    if not blocks:
        return ()
    return tuple(
        SizeBin(
            low=_edge(number),
            high=_edge(number + 1),
            blocks=blocks[number],
            bytes=total[number],
            small=2 * _edge(number + 1) <= target,
        )
        for number in range(min(blocks), max(blocks) + 1)
    )


def _bin_of(size: int) -> int:
    number = 0
    while size >= _edge(number + 1):
        number += 1
    return number


def _edge(number: int) -> int:
    return _SMALLEST_BIN * _STEP ** (number - 1) if number else 0


def table_of(view: View) -> BlockTable:
    """Return all blocks, column by column."""
    lines = list(block_lines(view))
    return BlockTable(
        stream=view.record.stream,
        at=view.timeline.at,
        ulid=tuple(line.ulid for line in lines),
        state=tuple(line.state for line in lines),
        level=tuple(line.level for line in lines),
        chunk=tuple(line.chunk for line in lines),
        start=tuple(line.min_time for line in lines),
        end=tuple(line.max_time for line in lines),
        rows=tuple(line.rows for line in lines),
        bytes=tuple(line.bytes for line in lines),
        sources=tuple(line.sources for line in lines),
        group=tuple(line.group for line in lines),
    )
