"""Groups that hold rows of replaced sources, of which only blocks that are out tell that they are replaced."""

from __future__ import annotations

from collections.abc import Iterable

from drystone.timeline.gone import successors
from drystone.timeline.groups import Group
from drystone.timeline.timeline import Timeline


def find_unaware(groups: Iterable[Group], timeline: Timeline) -> list[Group]:
    """Return which of these visible groups have such rows.

    A replacement that has expired, or was replaced itself, must stay for as long as they do not say it themselves: so
    they are rewritten, without those rows. Source: the design, "Visibility: replacing data" and invariant 5.
    """
    gone = timeline.gone
    if not gone.replaced:
        return []
    told = successors(pair for group in timeline.visible.groups for pair in group.retires).keys()
    only = gone.replaced.keys() - told - gone.retired
    return [group for group in groups if only and not only.isdisjoint(timeline.visible[group.id].gone)]
