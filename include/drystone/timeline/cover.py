"""Covering: which groups are superseded by which. Source: the design, "Visibility: covering"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from drystone.timeline.groups import Group
from drystone.timeline.holders import Holders

Realm = tuple[int, int]
"""(generation, resolution): groups of different realms have nothing to do with each other."""
_Live = tuple[Group, frozenset[str]]
"""A group and its live sources."""


@dataclass(frozen=True, slots=True)
class Covering:
    """`visible` groups, covered by none; `covered`: of each other group the id of a visible one that covers it.

    `holders` tells for each realm which visible groups hold a live source. `elsewhere`: by group, the live sources that
    it holds and another visible group owns. `out`: groups without a live source. `too_narrow` pairs a visible group
    with one that has all its sources but not its time range, and so does not cover it.
    """

    visible: list[Group] = field(default_factory=list)
    covered: dict[str, str] = field(default_factory=dict)
    holders: dict[Realm, Holders] = field(default_factory=dict)
    elsewhere: dict[str, frozenset[str]] = field(default_factory=dict)
    out: list[Group] = field(default_factory=list)
    too_narrow: list[tuple[Group, Group]] = field(default_factory=list)

    def holds(self, realm: Realm, source: str) -> bool:
        """Tell whether a visible group of the realm holds a live source."""
        return realm in self.holders and source in self.holders[realm]


def cover(ready: Iterable[Group], gone: frozenset[str]) -> Covering:
    """Resolve ready groups into those that are visible, and those that another one covers.

    G covers H iff G has all of H's live sources and H's time range, and, where the live sources are equal, G is
    preferred. Live is what is not gone: retired and replaced sources are read nowhere, so nobody needs to have them.
    Only groups of one generation and resolution cover each other. Covering is transitive and never mutual, so it is
    enough to hold each group, biggest first, against the visible ones before it that share its rarest source: near
    linear where sources are shared by few, and never pairwise.
    """
    result = Covering()
    for realm, groups in _biggest_first(ready, gone):
        holders = result.holders.setdefault(realm, Holders())
        for group, live in groups:
            if not live:
                result.out.append(group)
                continue
            candidates = holders.of_rarest(live)
            by = _find_cover(group, live, candidates, result) if candidates else None
            if by is not None:
                result.covered[group.id] = by.id
            else:
                result.visible.append(group)
                holders.add(group, live)
    _settle_owners(result)
    return result


def realm_of(group: Group) -> Realm:
    """Return the group's realm."""
    pattern = group.pattern
    return (pattern.generation, pattern.resolution)


def preference(group: Group) -> tuple[int, int, int, str]:
    """Return a key by which the group that wins among equals sorts first: more edits, higher rewrite, older.

    Before all that come more sources, gone ones included: what covered a group goes on to cover it when a source of
    both, or of one, is retired or replaced.
    """
    pattern = group.pattern
    return (-len(pattern.sources), -len(pattern.edits), -pattern.rewrite, group.first)


def _biggest_first(ready: Iterable[Group], gone: frozenset[str]) -> Iterator[tuple[Realm, list[_Live]]]:
    """Yield the groups with their live sources: those with most first, and of those with as many, the preferred."""
    by_size: dict[tuple[int, int, int], list[_Live]] = {}
    for group in ready:
        pattern = group.pattern
        live = pattern.sources
        if gone and not gone.isdisjoint(live):
            live -= gone
        by_size.setdefault((len(live), pattern.generation, pattern.resolution), []).append((group, live))
    for size in sorted(by_size, reverse=True):
        groups = by_size.pop(size)
        groups.sort(key=lambda pair: preference(pair[0]))
        yield size[1:], groups


def _find_cover(group: Group, live: frozenset[str], candidates: Iterable[Group], result: Covering) -> Group | None:
    narrow = None
    for other in candidates:
        if not live <= other.sources:
            continue
        if other.min_time <= group.min_time and group.max_time <= other.max_time:
            return other
        narrow = narrow or other
    if narrow is not None:
        result.too_narrow.append((narrow, group))
    return None


def _settle_owners(result: Covering) -> None:
    """Fill in `elsewhere`: each shared source is read from one holder, and left out of the others."""
    lost: dict[str, set[str]] = {}
    for holders in result.holders.values():
        for source, several in holders.shared():
            owner = holders.owner(source)
            for group in several:
                if group is not owner:
                    lost.setdefault(group.id, set()).add(source)
    result.elsewhere.update((name, frozenset(sources)) for name, sources in lost.items())
