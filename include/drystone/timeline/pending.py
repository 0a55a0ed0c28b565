"""Edits that a group has not applied: what a reader filters and the next compaction drops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

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


def expired_before(edits: Iterable[Edit]) -> int:
    """Return the time before which every row is expired, in ms; far in the past if there is no such edit."""
    return max((edit.before for edit in edits if isinstance(edit, Expire)), default=NEVER)


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
        if isinstance(edit, Expire) and group.min_time < edit.before:
            found.append(PendingEdit(edit, None))
        elif isinstance(edit, Erase):
            limit = edit.time + clock_skew
            hit = frozenset(source for source in group.sources if _planned_before(source, limit, origins))
            if hit:
                found.append(PendingEdit(edit, None if hit == group.sources else hit))
    return tuple(found)


def _planned_before(source: str, limit: int, origins: Mapping[str, frozenset[str]]) -> bool:
    return any(ulids.time_of(each) < limit for each in (source, *origins.get(source, ())))
