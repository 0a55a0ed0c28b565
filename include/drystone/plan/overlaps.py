"""Overlaps: visible groups that hold the same source, which are merged before anything else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from drystone.timeline.groups import Group


def find_overlaps(groups: Iterable[Group], shared: Iterable[Sequence[Group]]) -> list[list[Group]]:
    """Return the sets of two or more of these groups that are connected by sharing, each in the order of age.

    `shared`: for each source that several groups hold, all that hold it, others than `groups` too.
    """
    by_id = {group.id: group for group in groups}
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent.setdefault(name, name) != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    for holders in shared:
        names = [holder.id for holder in holders if holder.id in by_id]
        for name in names[1:]:
            parent[root(name)] = root(names[0])
    components: dict[str, list[Group]] = {}
    for name in parent:
        components.setdefault(root(name), []).append(by_id[name])
    found = [sorted(component, key=lambda group: group.first) for component in components.values()]
    return sorted((each for each in found if len(each) > 1), key=lambda component: component[0].first)
