"""From a planned merge to the exact recipe of its rewrite: what each input gives, and what the outputs will say.

Pure. Source: the design, "Compaction: executing" and "Visibility: owners, replacements".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drystone.block.meta import Meta, Parent, Replacement, TimeChunk
from drystone.plan.model import Merge
from drystone.timeline.groups import Group
from drystone.timeline.pending import PendingEdit
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, Visible


@dataclass(frozen=True, slots=True)
class Input:
    """One input block: its meta, sources to drop because another input gives them, and edits that take rows away."""

    ulid: str
    meta: Meta
    duplicates: frozenset[str]
    edits: tuple[PendingEdit, ...]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A merge ready to be executed. `gone`: sources whose rows are dropped for good. Times are ms."""

    merge: Merge
    inputs: tuple[Input, ...]
    gone: frozenset[str]
    sources: frozenset[str]
    edits: frozenset[str]
    retires: frozenset[Replacement]
    rewrite: int
    level: int
    generation: int
    min_time: int
    max_time: int

    @property
    def rows(self) -> int:
        """Rows of all inputs."""
        return sum(each.meta.stats.num_samples for each in self.inputs)

    @property
    def parents(self) -> tuple[Parent, ...]:
        """The inputs, as the outputs' meta.json names them."""
        return tuple(
            Parent(ulid=each.ulid, min_time=each.meta.min_time, max_time=each.meta.max_time) for each in self.inputs
        )

    @property
    def chunk(self) -> TimeChunk:
        """The outputs' time chunk."""
        return TimeChunk(start=self.merge.chunk_start, end=self.merge.chunk_end, granularity=self.merge.granularity)


def recipe_for(merge: Merge, snapshot: Snapshot, timeline: Timeline) -> Recipe | str:
    """Return the recipe, or why there is nothing to do any more.

    That is: since the plan, an input was merged, has gone, or came to be held or marked no-compact. Inputs are taken
    whole, whatever a reader's owner rule would leave out of them, and a source that several of them hold is taken from
    one.
    """
    missing = [name for name in merge.groups if name not in timeline.visible]
    if missing:
        return f"group {missing[0]} is not visible any more"
    chosen = [timeline.visible[name] for name in merge.groups]
    groups = [visible.group for visible in chosen]
    barred = [block.ulid for group in groups for block in group.members if _barred(block.ulid, merge, snapshot)]
    if barred:
        return f"block {barred[0]} is held, or marked no-compact"
    sources = frozenset().union(*(group.sources for group in groups))
    if any(sources <= pending.sources for pending in timeline.pending.values()):
        return "its replacement is uploaded and not ready yet"
    gone = frozenset().union(*(visible.gone for visible in chosen))
    inherited = frozenset().union(*(group.retires for group in groups))
    return Recipe(
        merge=merge,
        inputs=_inputs(chosen, snapshot),
        gone=gone,
        sources=sources,
        edits=frozenset(edit.id for edit in snapshot.edits),
        retires=inherited | timeline.gone.evidence(gone),
        rewrite=_rewrite(groups, gone),
        level=max(block.level for group in groups for block in group.members) + 1,
        generation=groups[0].pattern.generation,
        min_time=min(group.min_time for group in groups),
        max_time=max(group.max_time for group in groups),
    )


def _barred(ulid: str, merge: Merge, snapshot: Snapshot) -> bool:
    holds = (hold for hold in snapshot.holds if hold.expires > snapshot.taken_at)
    # Planners leave alone what is marked no-compact; a rewrite is what a person does about such a block.
    no_compact = snapshot.folders[ulid].no_compact and merge.kind != "rewrite"
    return no_compact or any(not hold.blocks or ulid in hold.blocks for hold in holds)


def _inputs(chosen: Sequence[Visible], snapshot: Snapshot) -> tuple[Input, ...]:
    owned: set[str] = set()
    found: list[Input] = []
    for visible in sorted(chosen, key=lambda each: (-len(each.group.sources), each.group.first)):
        duplicates = visible.group.sources & owned
        owned |= visible.group.sources
        for block in visible.group.members:
            meta = snapshot.folders[block.ulid].meta
            if meta is not None:
                found.append(Input(block.ulid, meta, frozenset(duplicates), visible.edits))
    return tuple(found)


def _rewrite(groups: Sequence[Group], gone: frozenset[str]) -> int:
    """Return a number that lets the output win over an input that has the same sources: by age it would lose."""
    highest = max(group.pattern.rewrite for group in groups)
    live = [group.sources - gone for group in groups]
    everything = frozenset().union(*live)
    return highest + 1 if everything in live else highest
