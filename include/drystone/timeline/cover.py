"""Covering: which groups are superseded by which. Source: the design, "Visibility: covering"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drystone.timeline.groups import Group

Realm = tuple[int, int]
"""(generation, resolution): groups of different realms have nothing to do with each other."""


@dataclass(frozen=True, slots=True)
class Covering:
    """`visible` groups, covered by none; `covered`: of each other group the id of a visible one that covers it.

    `holders` lists for each realm and live source the visible groups that hold it. `out`: groups without a live source.
    `too_narrow` pairs a group with one that has all its sources but not its time range, and so does not cover it.
    """

    visible: list[Group]
    covered: dict[str, str]
    holders: dict[tuple[Realm, str], list[Group]]
    out: list[Group]
    too_narrow: list[tuple[Group, Group]]

    def read_elsewhere(self, group: Group) -> frozenset[str]:
        """Return the sources of a visible group that another visible group owns.

        Each source is read from one: the one with more sources, else the older.
        """
        realm = realm_of(group)
        return frozenset(
            source
            for source in group.sources
            if len(holders := self.holders.get((realm, source), ())) > 1 and min(holders, key=_ownership) is not group
        )


def cover(ready: Iterable[Group], gone: frozenset[str]) -> Covering:
    """Resolve ready groups into those that are visible, and those that another one covers.

    G covers H iff G has all of H's live sources and H's time range, and, where the live sources are equal, G is
    preferred. Only groups of one generation and resolution cover each other. Covering is transitive and never mutual,
    so it is enough to hold each group, biggest first, against the visible ones before it that share its rarest
    source: near linear where sources are shared by few, and never pairwise.
    """
    result = Covering([], {}, {}, [], [])
    index = result.holders
    for group, live in _biggest_first(ready, gone):
        if not live:
            result.out.append(group)
            continue
        realm = realm_of(group)
        rarest = min((index.get((realm, source), []) for source in live), key=len)
        by = _find_cover(group, live, rarest, result)
        if by is not None:
            result.covered[group.id] = by.id
            continue
        result.visible.append(group)
        for source in live:
            index.setdefault((realm, source), []).append(group)
    return result


def realm_of(group: Group) -> Realm:
    """Return the group's realm."""
    return (group.pattern.generation, group.pattern.resolution)


def _biggest_first(ready: Iterable[Group], gone: frozenset[str]) -> list[tuple[Group, frozenset[str]]]:
    pairs = [(group, group.sources - gone if gone else group.sources) for group in ready]
    pairs.sort(key=lambda pair: (-len(pair[1]), *preference(pair[0])))
    return pairs


def _ownership(group: Group) -> tuple[int, str]:
    return (-len(group.sources), group.first)


def preference(group: Group) -> tuple[int, int, str]:
    """Return a key by which the group that wins among equals sorts first: more edits, higher rewrite, older."""
    return (-len(group.edits), -group.pattern.rewrite, group.first)


def _find_cover(group: Group, live: frozenset[str], candidates: list[Group], result: Covering) -> Group | None:
    for other in candidates:
        if not live <= other.sources:
            continue
        if other.min_time <= group.min_time and group.max_time <= other.max_time:
            return other
        result.too_narrow.append((other, group))
    return None
