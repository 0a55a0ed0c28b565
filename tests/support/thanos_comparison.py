"""Drystone's covering beside the real Thanos': wherever the two differ, a rule of the design says why.

Compared is which blocks are superseded: what Thanos' DeduplicateFilter takes for duplicates, and what Drystone's
timeline allows to be removed. A difference that no rule explains is noted, with the stream that shows it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice

from thanos_buckets import Stream, in_drystones_words, in_thanos_words
from thanos_oracle import Verdict, judge

from drystone.timeline.blocks import Block
from drystone.timeline.cover import realm_of
from drystone.timeline.groups import Group

_AT_ONCE = 500


class Why(StrEnum):
    """Why the two differ about a block: first the cases that Thanos gets wrong, then what it has no words for."""

    MARKED = "the replacement is itself marked for deletion"
    EMPTY = "empty `compaction.sources`"
    NARROW = "a replacement whose time range does not contain the replaced block's"
    VERSION = "one `meta.json` of another version"
    MEMBER = "members of one group: the same sources, other rows"
    FILES = "files that meta.json lists are missing"
    INCOMPLETE = "a group that is not complete"
    GENERATION = "another generation of the stream"
    PREFERENCE = "of equal sources, more edits or a higher `rewrite` number win"
    GONE = "sources that were retired, replaced or expired"


THANOS_ERRS = (Why.MARKED, Why.EMPTY, Why.NARROW, Why.VERSION)
"""The rows of the design's table that show in covering. The others are acts, and have tests of their own."""


@dataclass
class Counts:
    """What was compared: streams, blocks, blocks that both remove and that both keep, and the differences.

    `halted`: streams in which Thanos would stop and wait for a person, because blocks overlap in time. `unexplained`:
    differences that no rule gives a reason for, each with the stream that shows it.
    """

    streams: int = 0
    blocks: int = 0
    both_remove: int = 0
    both_keep: int = 0
    halted: int = 0
    differences: Counter[Why] = field(default_factory=Counter)
    unexplained: list[str] = field(default_factory=list)


def compare(make: Callable[[int], Stream], seeds: Iterable[int]) -> Counts:
    """Make a stream of each seed, ask both, and return what was found."""
    counts = Counts()
    streams = (make(seed) for seed in seeds)
    while some := list(islice(streams, _AT_ONCE)):
        for stream, verdict in zip(some, judge(stream.metas for stream in some), strict=True):
            count(counts, stream, verdict)
    return counts


def compare_both(streams: int) -> tuple[Counts, Counts]:
    """Compare so many streams in Thanos' words, and as many in Drystone's."""
    return compare(in_thanos_words, range(streams)), compare(in_drystones_words, range(streams))


def count(counts: Counts, stream: Stream, verdict: Verdict) -> None:
    """Add what the two say of one stream."""
    _compare_groups(counts, stream, verdict)
    counts.streams += 1
    counts.blocks += len(stream.blocks)
    counts.halted += bool(verdict.overlapping)
    # One meta.json that it refuses, and Thanos does nothing at all.
    theirs = frozenset[str]() if verdict.unreadable else verdict.duplicates
    ours = stream.superseded
    counts.both_remove += len(theirs & ours)
    counts.both_keep += len(stream.blocks.keys() - theirs - ours)
    for ulid in sorted(theirs ^ ours):
        block = stream.blocks[ulid]
        why = _why_kept(block, stream) if ulid in theirs else _why_removed(block, stream, verdict)
        if why is None:
            who = "Thanos" if ulid in theirs else "Drystone"
            counts.unexplained.append(f"{stream.name}: only {who} removes {ulid} of {stream.blocks}")
        else:
            counts.differences[why] += 1


def _compare_groups(counts: Counts, stream: Stream, verdict: Verdict) -> None:
    """Note a stream whose compaction groups are not its resolutions: what may cover each other, generations aside."""
    resolutions: dict[int, set[str]] = {}
    for ulid, block in stream.blocks.items():
        if ulid not in verdict.unreadable:
            resolutions.setdefault(block.resolution, set()).add(ulid)
    if {frozenset(each) for each in resolutions.values()} != set(verdict.groups.values()):
        counts.unexplained.append(f"{stream.name}: Thanos groups {verdict.groups}, and Drystone {resolutions}")


def _why_kept(block: Block, stream: Stream) -> Why | None:
    """Return which rule keeps a block that Thanos removes: one must rule out every block that Thanos goes by."""
    own = stream.timeline.groups.get(block.group)
    if own is None:
        return Why.EMPTY if stream.snapshot.folders[block.ulid].meta_error else None
    found = [_ruled_out(other, block, own, stream) for other in _covering(block, stream)]
    if not found or None in found:
        return None
    # What Drystone itself takes for covered is not kept because of anybody's time range.
    covered = own.id in stream.timeline.covered
    return next((why for why in found if not (covered and why is Why.NARROW)), None)


def _covering(block: Block, stream: Stream) -> Iterator[Block]:
    """Yield the blocks that make a duplicate of this one for Thanos: those with more sources first."""
    others = (other for other in stream.blocks.values() if other.resolution == block.resolution)
    order = sorted(others, key=_thanos_order)
    for other in order[: order.index(block)]:
        if block.sources <= other.sources and not stream.snapshot.folders[other.ulid].meta_error:
            yield other


def _thanos_order(block: Block) -> tuple[int, str]:
    return -len(block.sources), block.ulid


def _ruled_out(other: Block, block: Block, own: Group, stream: Stream) -> Why | None:
    """Return why a block that has all sources of another one does not replace it."""
    group = stream.timeline.groups[other.group]
    if group is own:
        return Why.MEMBER
    if not other.loadable:
        return Why.FILES
    if not (group.complete and own.complete):
        return Why.INCOMPLETE
    if realm_of(group) != realm_of(own):
        return Why.GENERATION
    if other.sources == block.sources and _weight(own) > _weight(group):
        return Why.PREFERENCE
    if group.min_time > own.min_time or group.max_time < own.max_time:
        return Why.NARROW
    if block.retires or own.id in stream.timeline.out or not stream.timeline.gone.sources.isdisjoint(other.sources):
        return Why.GONE
    return Why.MARKED if _rests_on_a_mark(group, stream) or _rests_on_a_mark(own, stream) else None


def _weight(group: Group) -> tuple[int, int]:
    return len(group.edits), group.pattern.rewrite


def _rests_on_a_mark(group: Group, stream: Stream) -> bool:
    """Whether what is visible in the group's place is marked, or the group is visible itself and marked."""
    visible = stream.timeline.groups[stream.timeline.covered.get(group.id, group.id)]
    return any(each.ulid in stream.marks for each in visible.members)


def _why_removed(block: Block, stream: Stream, verdict: Verdict) -> Why | None:
    """Return which rule removes a block that Thanos keeps."""
    timeline = stream.timeline
    if verdict.unreadable:
        return Why.VERSION
    own = timeline.groups[block.group]
    if own.id in timeline.out:
        return Why.GONE
    if not block.loadable:
        return Why.FILES
    if not own.complete:
        return Why.INCOMPLETE
    if own.id not in timeline.covered:
        return Why.MEMBER if block.ulid in timeline.twins else None
    by = timeline.groups[timeline.covered[own.id]]
    if not own.sources - timeline.gone.sources <= by.sources:
        return None
    if not own.sources <= by.sources:
        return Why.GONE
    return Why.PREFERENCE if _weight(by) > _weight(own) and by.sources == own.sources else None
