"""Which visible groups a compaction may take, and why it may not take the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drystone.block.states import Times
from drystone.plan.model import Skip
from drystone.timeline.groups import Group
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Candidates:
    """Groups that may be merged now, and the visible ones that may not, with the reason."""

    groups: tuple[Group, ...]
    skipped: tuple[Skip, ...]


def find_candidates(snapshot: Snapshot, timeline: Timeline, times: Times, generation: int) -> Candidates:
    """Return the visible, ready, raw groups of a generation that are not marked, held, no-compact, or being merged.

    Being merged: a complete group that is not ready yet holds all their sources, or the journal says that they were
    taken in a moment ago and the listing may lag.
    """
    pending = _sources_of(timeline.pending.values())
    journaled = _journaled(snapshot, timeline.at, times)
    held = _held(snapshot, timeline.at)
    groups: list[Group] = []
    skipped: list[Skip] = []
    for group in timeline.visible.groups:
        # What is downsampled is derived: it is rebuilt, and never merged.
        if group.pattern.generation != generation or group.pattern.resolution:
            continue
        reason = _reason_to_skip(group, snapshot, held, journaled) or _merging(group, pending)
        if reason:
            skipped.append(Skip(name=group.id, reason=reason))
        else:
            groups.append(group)
    return Candidates(tuple(groups), tuple(skipped))


def _reason_to_skip(group: Group, snapshot: Snapshot, held: frozenset[str] | None, journaled: frozenset[str]) -> str:
    folders = [snapshot.folders[block.ulid] for block in group.members]
    if any(folder.has_mark for folder in folders):
        return "marked for deletion"
    if any(folder.no_compact for folder in folders):
        return "marked no-compact"
    if held is None or any(folder.ulid in held for folder in folders):
        return "held"
    if group.id in journaled:
        return "merged a moment ago; its replacement is not ready yet"
    return ""


def _merging(group: Group, pending: dict[str, list[frozenset[str]]]) -> str:
    source = next(iter(group.sources))
    if any(group.sources <= sources for sources in pending.get(source, ())):
        return "its replacement is uploaded and not ready yet"
    return ""


def _sources_of(groups: Iterable[Group]) -> dict[str, list[frozenset[str]]]:
    index: dict[str, list[frozenset[str]]] = {}
    for group in groups:
        for source in group.sources:
            index.setdefault(source, []).append(group.sources)
    return index


def _journaled(snapshot: Snapshot, now: int, times: Times) -> frozenset[str]:
    since = now - times.sync_delay - times.max_lag
    recent = (attempt for attempt in snapshot.journal if attempt.time > since)
    return frozenset(name for attempt in recent for names in attempt.done.values() for name in names)


def _held(snapshot: Snapshot, now: int) -> frozenset[str] | None:
    """Return the blocks that holds name; None if one holds the whole stream."""
    active = [hold for hold in snapshot.holds if hold.expires > now]
    if any(not hold.blocks for hold in active):
        return None
    return frozenset(ulid for hold in active for ulid in hold.blocks)
