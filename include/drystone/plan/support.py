"""What must stay for a block to go: whole, unmarked blocks that hold its rows, or an edit that took them away.

Source: the design, "Visibility: what must hold" (4) and "Guards: the remover asks again".
"""

from __future__ import annotations

from collections.abc import Iterable

from drystone.block.marks import EXPIRED
from drystone.block.meta import Replacement
from drystone.timeline.blocks import NO_REPLACEMENTS
from drystone.timeline.cover import Realm, realm_of
from drystone.timeline.gone import Gone, successors
from drystone.timeline.groups import Group
from drystone.timeline.pending import expiry_of
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline

Needs = tuple[str, ...]
"""The ULIDs of blocks."""


class Support:
    """Answers for one timeline what the removal of a group rests on; None stands for: it must not be removed."""

    def __init__(self, snapshot: Snapshot, timeline: Timeline) -> None:
        """The snapshot says which blocks are marked."""
        self._snapshot = snapshot
        self._timeline = timeline
        self._known: dict[str, Needs] = {}
        self._expired = frozenset(
            (realm_of(timeline.groups[name]), source)
            for name, reason in timeline.out.items()
            if reason == EXPIRED
            for source in timeline.groups[name].sources
        )
        expiry = expiry_of(snapshot.edits)
        if expiry:
            over = (group for group in timeline.incomplete.values() if expiry.takes_all_of(group))
            self._expired |= {(realm_of(group), source) for group in over for source in group.sources}
        self._left_out: dict[str, list[Group]] = {}
        if timeline.gone.replaced:
            self._left_out = self._without_replaced_rows()
            self._kept_gone = self._gone_without_removed_groups()
            self._present = self._holders_of(timeline.gone.replaced.keys())

    def group(self, name: str) -> Needs | None:
        """Return the members of a visible group, or None if one of them is marked: then it keeps nothing."""
        if name not in self._known:
            members = tuple(block.ulid for block in self._timeline.groups[name].members)
            marked = any(self._snapshot.folders[ulid].has_mark for ulid in members)
            self._known[name] = () if marked else members
        return self._known[name] or None

    def sources(self, group: Group, sources: Iterable[str]) -> Needs | None:
        """Return the members of unmarked visible groups that hold these sources, or what replaced them.

        A retired source needs nobody, and an expired one neither: the edit stays. Nor does what the group itself has
        left out. A source of a replacement that was never whole needs its root.
        """
        realm = realm_of(group)
        gone = self._timeline.gone
        if group.retires and not group.complete:
            gone = gone.also(group.retires)
        if not gone.sources.isdisjoint(group.sources):
            sources = frozenset(sources) - gone.dropped_by(group, self._snapshot.edits)
        roots: dict[str, str] = {}
        if not group.was_whole:
            roots = {pair.by: pair.root for pair in group.retires if pair not in self._timeline.replacements}
        needs: set[str] = set()
        for source in sources:
            found = self._source(realm, source, gone)
            if found is None and source in roots:
                found = self._source(realm, roots[source], self._timeline.gone)
            if found is None:
                return None
            needs.update(found)
        return tuple(sorted(needs))

    def held(self, realm: Realm, sources: Iterable[str], told: Iterable[Replacement] = NO_REPLACEMENTS) -> Needs | None:
        """Return the members of unmarked visible groups of a realm that hold these sources, or what replaced them.

        A retired or expired source needs nobody. `told`: what the block that they are of says of replacements.
        """
        gone = self._timeline.gone.also(told) if told else self._timeline.gone
        needs: set[str] = set()
        for source in sources:
            found = self._source(realm, source, gone)
            if found is None:
                return None
            needs.update(found)
        return tuple(sorted(needs))

    def keeps_replaced_away(self, group: Group) -> bool:
        """Tell whether a replaced source would be read again if the group, which says that it is replaced, went first.

        That is so while another group has rows of it, and no visible one says the same.
        """
        if not group.retires:
            return False
        alone = successors(group.retires).keys() - self._kept_gone
        return any(other is not group for source in alone for other in self._present.get(source, ()))

    def _source(self, realm: Realm, source: str, gone: Gone) -> Needs | None:
        successor = gone.replaced.get(source, source)
        if source in gone.retired or successor in gone.retired:
            return ()
        holders = self._timeline.holders[realm].of(successor) if realm in self._timeline.holders else ()
        # What replaced it may have expired since, and be deleted. A group that was written without the replaced rows
        # when the others were there has settled the matter.
        witnesses = self._left_out.get(source, ())
        found = (self.group(each.id) for each in (*holders, *witnesses))
        # Also when it is what the rows themselves were in that has expired, with or without them.
        nobody = () if not self._expired.isdisjoint(((realm, successor), (realm, source))) else None
        return next((needs for needs in found if needs is not None), nobody)

    def _gone_without_removed_groups(self) -> frozenset[str]:
        """Return what is gone by the word of edits and of visible, unmarked groups alone."""
        visible = (group for group in self._timeline.visible.groups if group.retires)
        pairs = (pair for group in visible if self.group(group.id) is not None for pair in group.retires)
        return self._timeline.gone.retired.union(successors(pairs))

    def _without_replaced_rows(self) -> dict[str, list[Group]]:
        """Return for replaced sources the visible groups that had them, and left their rows out."""
        found: dict[str, list[Group]] = {}
        for group in self._timeline.visible.groups:
            for source in group.sources & successors(group.retires).keys() if group.retires else ():
                found.setdefault(source, []).append(group)
        return found

    def _holders_of(self, sources: Iterable[str]) -> dict[str, list[Group]]:
        """Return for each of these sources all groups, in whatever state, that may have rows of it."""
        wanted = frozenset(sources)
        found: dict[str, list[Group]] = {source: [] for source in wanted}
        for group in self._timeline.groups.values():
            if wanted.isdisjoint(group.sources):
                continue
            for source in (wanted & group.sources) - successors(group.retires).keys():
                found[source].append(group)
        return found
