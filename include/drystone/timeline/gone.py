"""Sources that are read nowhere any more: retired by an edit, or replaced. Source: the design, "Visibility"."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drystone.block.edits import Edit, Retire
from drystone.block.meta import Replacement
from drystone.timeline.groups import Group


@dataclass(frozen=True, slots=True)
class Gone:
    """`retired` are source ids; `replaced` names for each replaced source the one that now stands for it.

    Whatever replaces a retired source is retired with it, also if it was uploaded later. `sources`: both.
    `replacements`: what ready groups say replaces what. `origins` tells of a replacing source every root that it stands
    for, the roots of roots too.
    """

    retired: frozenset[str]
    replaced: Mapping[str, str]
    sources: frozenset[str]
    replacements: frozenset[Replacement]
    origins: Mapping[str, frozenset[str]]

    def also(self, pairs: Iterable[Replacement]) -> Gone:
        """Return what would be gone if these replacements, of a group that is not ready, counted too."""
        return _gone(self.retired, self.replacements.union(pairs))

    def dropped_by(self, group: Group, edits: Iterable[Edit]) -> frozenset[str]:
        """Return the sources whose rows the group left out when it was written: nothing of them is in it."""
        applied = (edit for edit in edits if isinstance(edit, Retire) and edit.id in group.edits)
        named = frozenset[str]().union(*(edit.sources for edit in applied))
        return named.union(successors(group.retires), standing_for(named, origins_of(group.retires)))

    def evidence(self, sources: Iterable[str]) -> frozenset[Replacement]:
        """Return what tells that these sources are replaced, and by what, to whoever knows nothing else."""
        named = frozenset(sources)
        named |= {self.replaced[source] for source in named if source in self.replaced}
        named = named.union(*(self.origins.get(source, ()) for source in named))
        return frozenset(pair for pair in self.replacements if pair.by in named)

    def family(self, sources: Iterable[str]) -> frozenset[str]:
        """Return these sources with all that they stand for and all that ever stood for the same.

        Whoever retires a source retires its family: else a late copy of what it replaced comes back to life when the
        last block that tells of the replacement is gone.
        """
        found = frozenset(sources)
        found = found.union(*(self.origins.get(source, ()) for source in found))
        return found | {source for source, roots in self.origins.items() if not found.isdisjoint(roots)}


def find_gone(ready: Iterable[Group], edits: Iterable[Edit]) -> Gone:
    """Return what edits and *ready* groups take out of reading; a replacement that is not ready changes nothing."""
    named = frozenset(source for edit in edits if isinstance(edit, Retire) for source in edit.sources)
    return _gone(named, frozenset(pair for group in ready if group.retires for pair in group.retires))


def _gone(named: frozenset[str], replacements: frozenset[Replacement]) -> Gone:
    replaced, origins = successors(replacements), origins_of(replacements)
    retired = named | standing_for(named, origins)
    return Gone(retired, replaced, retired.union(replaced), replacements, origins)


def standing_for(named: frozenset[str], origins: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return which sources replace one of those that are named, directly or through others."""
    return frozenset(source for source, roots in origins.items() if not named.isdisjoint(roots)) if named else named


def successors(replacements: Iterable[Replacement]) -> dict[str, str]:
    """Return for every replaced source the one that stands for it: of all that replace its root, the newest.

    Replaced are the roots, and of several sources that replace one root, directly or one through another, all but the
    newest. A replacing source's id carries its plan's time first, so the newest plan's is the greatest.
    """
    origins = origins_of(replacements)
    roots = {source: stands_for - origins.keys() for source, stands_for in origins.items()}
    newest: dict[str, str] = {}
    for source, first in roots.items():
        for root in first:
            newest[root] = max(newest.get(root, ""), source)
    last = set(newest.values())
    older = (source for source in origins if source not in last)
    return newest | {source: max(newest[root] for root in roots[source]) for source in older}


def origins_of(replacements: Iterable[Replacement]) -> dict[str, frozenset[str]]:
    """Return for every replacing source all that it stands for: its root, and what that one replaced, and so on."""
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
