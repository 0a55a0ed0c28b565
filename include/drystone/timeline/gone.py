"""Sources that are read nowhere any more: retired by an edit, or replaced. Source: the design, "Visibility"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drystone.block.edits import Edit, Retire
from drystone.block.meta import Replacement
from drystone.timeline.groups import Group


@dataclass(frozen=True, slots=True)
class Gone:
    """`retired` and `replaced` are source ids; `origins` tells of a replacing source all roots that it stands for."""

    retired: frozenset[str]
    replaced: frozenset[str]
    replacements: frozenset[Replacement]
    origins: Mapping[str, frozenset[str]]

    @property
    def sources(self) -> frozenset[str]:
        """Every source that is read nowhere."""
        return self.retired | self.replaced

    def dropped_by(self, group: Group, edits: Iterable[Edit]) -> frozenset[str]:
        """Return the sources whose rows the group left out when it was written: nothing of them is in it."""
        applied = (edit for edit in edits if isinstance(edit, Retire) and edit.id in group.edits)
        return replaced_by(group.retires).union(*(edit.sources for edit in applied))


def find_gone(ready: Iterable[Group], edits: Iterable[Edit]) -> Gone:
    """Return what edits and *ready* groups take out of reading; a replacement that is not ready changes nothing."""
    retired = frozenset(source for edit in edits if isinstance(edit, Retire) for source in edit.sources)
    replacements = frozenset(pair for group in ready for pair in group.retires)
    return Gone(retired, replaced_by(replacements), replacements, _origins(replacements))


def replaced_by(replacements: Iterable[Replacement]) -> frozenset[str]:
    """Return the roots, and of several replacements of one root all but the one with the newest plan.

    A replacing source's id carries its plan's time first, so the newest is the greatest.
    """
    newest: dict[str, str] = {}
    everyone: set[str] = set()
    roots: set[str] = set()
    for pair in replacements:
        roots.add(pair.root)
        everyone.add(pair.by)
        newest[pair.root] = max(newest.get(pair.root, ""), pair.by)
    return frozenset(roots | (everyone - set(newest.values())))


def _origins(replacements: frozenset[Replacement]) -> dict[str, frozenset[str]]:
    parents: dict[str, set[str]] = {}
    for pair in replacements:
        parents.setdefault(pair.by, set()).add(pair.root)

    found: dict[str, frozenset[str]] = {}
    for source in parents:
        seen: set[str] = set()
        todo = [source]
        while todo:
            new = parents.get(todo.pop(), set()) - seen
            seen |= new
            todo.extend(new)
        found[source] = frozenset(seen)
    return found
