"""The visible groups of a timeline, and what a reader must leave out of each. Source: the design, "Visibility".

What is left out of a group is worked out when it is asked for: a reader of one hour need not wait for a million others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from drystone.block.edits import Edit
from drystone.timeline.blocks import NONE
from drystone.timeline.gone import Gone
from drystone.timeline.groups import Group
from drystone.timeline.pending import PendingEdit, pending_edits
from drystone.timeline.ranges import TimeRanges


@dataclass(frozen=True, slots=True)
class Visible:
    """A visible group, and what of it a reader must leave out.

    `excluded`: sources whose rows are read elsewhere or nowhere. `edits`: what was not yet applied to its rows.
    `gone`: the part of `excluded` that is read nowhere, which a compaction drops for good.
    """

    group: Group
    excluded: frozenset[str]
    gone: frozenset[str]
    edits: tuple[PendingEdit, ...]


class VisibleGroups(Mapping[str, Visible]):
    """The visible groups by id, biggest source set first."""

    def __init__(
        self,
        groups: Iterable[Group],
        elsewhere: Mapping[str, frozenset[str]],
        gone: Gone,
        edits: Iterable[Edit],
        clock_skew: int,
    ) -> None:
        """`elsewhere`: by group, what another one owns. `gone`, `edits`: of the stream. `clock_skew`: ms."""
        self._groups = {group.id: group for group in groups}
        self._elsewhere = elsewhere
        self._gone = gone
        self._edits = tuple(edits)
        self._clock_skew = clock_skew

    def __getitem__(self, name: str) -> Visible:
        """Return a visible group by its id; raise KeyError if none has it."""
        return self._visible(self._groups[name])

    def __iter__(self) -> Iterator[str]:
        """Yield the ids."""
        return iter(self._groups)

    def __len__(self) -> int:
        """Return the number of visible groups."""
        return len(self._groups)

    def __contains__(self, name: object) -> bool:
        """Tell whether a group is visible."""
        return name in self._groups

    def __repr__(self) -> str:
        """Name the groups."""
        return f"VisibleGroups({list(self._groups)})"

    def between(self, start: int | None, end: int | None) -> Iterator[Visible]:
        """Yield the visible groups that may have rows with start <= time < end (ms; None: no bound).

        The first call sorts all groups by time; from then on it takes O(log n + groups found).
        """
        if start is None and end is None:
            yield from self.values()
            return
        for group in self._by_time.between(start, end):
            yield self._visible(group)

    @property
    def groups(self) -> Iterable[Group]:
        """The groups alone: cheaper than the values for who needs not know what is left out of them."""
        return self._groups.values()

    @cached_property
    def _by_time(self) -> TimeRanges[Group]:
        return TimeRanges((group.min_time, group.max_time, group) for group in self._groups.values())

    def _visible(self, group: Group) -> Visible:
        dead = NONE
        if self._gone.sources and not self._gone.sources.isdisjoint(group.sources):
            dead = (self._gone.sources & group.sources) - self._gone.dropped_by(group, self._edits)
        elsewhere = self._elsewhere.get(group.id, NONE)
        edits = pending_edits(group, self._edits, self._gone.origins, self._clock_skew) if self._edits else ()
        return Visible(group, dead | elsewhere if dead and elsewhere else dead or elsewhere, dead, edits)
