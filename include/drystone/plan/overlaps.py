"""Overlaps: visible groups that hold the same source, which are merged before anything else."""

from __future__ import annotations

from collections.abc import Iterable

from drystone.timeline.groups import Group


def find_overlaps(groups: Iterable[Group]) -> list[list[Group]]:
    """Return the sets of two or more groups that are connected by shared sources, each in the order of age."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    holder: dict[str, str] = {}
    by_id: dict[str, Group] = {}
    for group in groups:
        by_id[group.id] = group
        parent[group.id] = group.id
        for source in group.sources:
            parent[root(holder.setdefault(source, group.id))] = root(group.id)
    components: dict[str, list[Group]] = {}
    for name, group in by_id.items():
        components.setdefault(root(name), []).append(group)
    found = [sorted(component, key=lambda group: group.first) for component in components.values()]
    return [component for component in found if len(component) > 1]
