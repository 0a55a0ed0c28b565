"""Which visible groups hold a source: the inverted index of the timeline, of one realm.

Nearly every source is held by one group, so that a list for each would take most of the timeline's memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from drystone.timeline.groups import Group


class Holders:
    """The groups that hold each source, in the order in which they were added."""

    __slots__ = ("_first", "_several")

    def __init__(self) -> None:
        """Begin without a group."""
        self._first: dict[str, Group] = {}
        self._several: dict[str, list[Group]] = {}

    def __contains__(self, source: str) -> bool:
        """Tell whether any group holds the source."""
        return source in self._first

    def __len__(self) -> int:
        """Return the number of sources that are held."""
        return len(self._first)

    def of(self, source: str) -> Sequence[Group]:
        """Return the groups that hold a source."""
        several = self._several.get(source)
        if several is not None:
            return several
        only = self._first.get(source)
        return () if only is None else (only,)

    def owner(self, source: str) -> Group | None:
        """Return the group that the source is read from: the one with more sources, else the older; None: no holder."""
        holders = self.of(source)
        return min(holders, key=_ownership) if holders else None

    def shared(self) -> Iterable[tuple[str, Sequence[Group]]]:
        """Return the sources that more than one group holds, with those groups."""
        return self._several.items()

    def add(self, group: Group, sources: Iterable[str]) -> None:
        """Note that a group holds these sources."""
        for source in sources:
            first = self._first.setdefault(source, group)
            if first is not group:
                self._several.setdefault(source, [first]).append(group)

    def of_rarest(self, sources: AbstractSet[str]) -> Sequence[Group]:
        """Return the groups that hold the one of these sources which the fewest hold: all that may hold every one."""
        if not sources <= self._first.keys():
            return ()
        if self._several.keys().isdisjoint(sources):
            return (self._first[next(iter(sources))],)
        return min((self.of(source) for source in sources), key=len)


def _ownership(group: Group) -> tuple[int, str]:
    return (-len(group.sources), group.first)
