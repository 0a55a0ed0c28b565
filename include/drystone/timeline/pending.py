"""Edits that a group has not applied: what a reader filters and the next compaction drops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from drystone import ulids
from drystone.block.edits import Edit, Erase, Expire
from drystone.timeline.groups import Group

NEVER = -(1 << 62)
"""A time before every row, in ms."""


@dataclass(frozen=True, slots=True)
class PendingEdit:
    """An erase or expire edit, and the sources of the group that it applies to; None: all of them."""

    edit: Erase | Expire
    sources: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Expiry:
    """The time (ms) before which every row is expired: `everywhere`, and further on in `own`, by resolution."""

    everywhere: int = NEVER
    own: Mapping[int, int] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Tell whether there is an expire edit at all."""
        return self.everywhere != NEVER or bool(self.own)

    def before(self, resolution: int) -> int:
        """Return the time for blocks of a resolution; far in the past if no edit speaks of it."""
        return max(self.everywhere, self.own.get(resolution, NEVER))

    def takes_all_of(self, group: Group) -> bool:
        """Tell whether every row of the group is expired, those of members that are missing too."""
        before = self.before(group.pattern.resolution)
        if group.complete:
            return group.max_time <= before
        # Every block of a compaction has the range of the whole group; those of an upload each have their own, and only
        # the mark of one tells what the others were.
        known = group.was_whole or group.pattern.level > 1 or group.was_expired
        return known and max(block.max_time for block in group.blocks) <= before


def expiry_of(edits: Iterable[Edit]) -> Expiry:
    """Return what the expire edits among these say together."""
    everywhere = NEVER
    own: dict[int, int] = {}
    for edit in edits:
        if not isinstance(edit, Expire):
            continue
        if edit.resolution is None:
            everywhere = max(everywhere, edit.before)
        else:
            own[edit.resolution] = max(edit.before, own.get(edit.resolution, NEVER))
    return Expiry(everywhere, own)


def pending_edits(
    group: Group, edits: Iterable[Edit], origins: Mapping[str, frozenset[str]], clock_skew: int
) -> tuple[PendingEdit, ...]:
    """Return the erase and expire edits whose rows may still be in the group.

    An erase applies to sources planned before its time + clock skew, and to whatever replaces those: `origins` tells
    the roots that a source stands in for.
    """
    found: list[PendingEdit] = []
    for edit in edits:
        if edit.id in group.edits:
            continue
        if isinstance(edit, Expire):
            if group.min_time < edit.before and edit.takes_from(group.pattern.resolution):
                found.append(PendingEdit(edit, None))
        elif isinstance(edit, Erase):
            hit = subject_to(edit, group.sources, origins, clock_skew)
            if hit:
                found.append(PendingEdit(edit, None if hit == group.sources else hit))
    return tuple(found)


def subject_to(
    edit: Erase, sources: Iterable[str], origins: Mapping[str, frozenset[str]], clock_skew: int
) -> frozenset[str]:
    """Return which of these sources an erase applies to: those planned before its time, and what replaces such."""
    limit = edit.time + clock_skew
    return frozenset(source for source in sources if _planned_before(source, limit, origins))


def _planned_before(source: str, limit: int, origins: Mapping[str, frozenset[str]]) -> bool:
    return any(ulids.time_of(each) < limit for each in (source, *origins.get(source, ())))
