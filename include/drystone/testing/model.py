"""A reference model of visibility: the design's rules as it states them, pairwise, with no thought of speed.

It shares no code with `drystone.timeline`, and takes quadratic time. `tests/property` compares the two on random
streams; whoever changes how blocks are planned or written can do the same with streams of their own.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drystone.block.edits import Edit, Expire, Retire
from drystone.block.meta import Replacement
from drystone.block.states import Times
from drystone.timeline.blocks import Block


@dataclass(frozen=True, slots=True)
class Expected:
    """What the rules say of a stream, by group id.

    `reads`: for each visible group the sources that are read from it. `gone`: the sources that are read nowhere.
    """

    visible: frozenset[str]
    covered: frozenset[str]
    out: frozenset[str]
    pending: frozenset[str]
    incomplete: frozenset[str]
    reads: dict[str, frozenset[str]]
    gone: frozenset[str]
    damage: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Group:
    id: str
    blocks: tuple[Block, ...]
    members: tuple[Block, ...]
    complete: bool
    ready: bool

    @property
    def any(self) -> Block:
        return self.blocks[0]

    @property
    def sources(self) -> frozenset[str]:
        return self.any.sources

    @property
    def start(self) -> int:
        return min(block.min_time for block in self.members or self.blocks)

    @property
    def end(self) -> int:
        return max(block.max_time for block in self.members or self.blocks)

    @property
    def first(self) -> str:
        return min(block.ulid for block in self.members or self.blocks)


def expect(blocks: Iterable[Block], edits: Iterable[Edit], times: Times, now: int) -> Expected:
    """Return what must be visible of these blocks and edits at `now` (ms), and what is damage."""
    model = _Model(tuple(blocks), tuple(edits), times, now)
    return Expected(
        visible=frozenset(group.id for group in model.visible),
        covered=frozenset(group.id for group in model.read_from if group not in model.visible),
        out=frozenset(group.id for group in model.ready if group not in model.read_from),
        pending=frozenset(group.id for group in model.groups if group.complete and not group.ready),
        incomplete=frozenset(group.id for group in model.groups if not group.complete),
        reads={group.id: model.reads(group) for group in model.visible},
        gone=model.gone,
        damage=frozenset(group.id for group in model.groups if model.is_damage(group)) | model.disagreeing,
    )


class _Model:
    def __init__(self, blocks: tuple[Block, ...], edits: tuple[Edit, ...], times: Times, now: int) -> None:
        self.edits, self.times, self.now = edits, times, now
        by_id = {block.group: tuple(each for each in blocks if each.group == block.group) for block in blocks}
        self.disagreeing = frozenset(name for name, found in by_id.items() if len({_shared(b) for b in found}) > 1)
        self.groups = [self._group(name, found) for name, found in by_id.items() if name not in self.disagreeing]
        self.ready = [group for group in self.groups if group.ready]
        self.pairs = frozenset(pair for group in self.ready for pair in group.any.retires)
        self.retired = frozenset(source for edit in edits if isinstance(edit, Retire) for source in edit.sources)
        self.gone = self.retired | replaced(self.pairs)
        self.read_from = [group for group in self.ready if self.live(group) and not self._expired(group)]
        self.visible = [
            group for group in self.read_from if not any(self._covers(other, group) for other in self.read_from)
        ]

    def _group(self, name: str, blocks: tuple[Block, ...]) -> _Group:
        """One member per index counts: the oldest that is ready, or else the oldest that can be loaded."""
        members = []
        for index in range(blocks[0].group_size):
            twins = sorted((b for b in blocks if b.group_index == index and b.loadable), key=lambda b: b.ulid)
            ready = [block for block in twins if self._is_ready(block)]
            members += (ready or twins)[:1]
        complete = len(members) == blocks[0].group_size
        return _Group(name, blocks, tuple(members), complete, complete and all(map(self._is_ready, members)))

    def _is_ready(self, block: Block) -> bool:
        return block.loadable and (block.ignore_delay or self.now - block.touched >= self.times.sync_delay)

    def live(self, group: _Group) -> frozenset[str]:
        """What is read somewhere, of the group's sources."""
        return group.sources - self.gone

    def _expired(self, group: _Group) -> bool:
        return any(
            isinstance(edit, Expire) and group.end <= edit.before and edit.resolution in {None, group.any.resolution}
            for edit in self.edits
        )

    def _covers(self, one: _Group, other: _Group) -> bool:
        if one.id == other.id or _realm(one) != _realm(other):
            return False
        if not self.live(other) <= self.live(one):
            return False
        if one.start > other.start or one.end < other.end:
            return False
        return self.live(other) < self.live(one) or _preference(one) < _preference(other)

    def reads(self, group: _Group) -> frozenset[str]:
        """Each live source is read from one visible group: the one with more sources, else the older."""
        found = set()
        for source in self.live(group):
            holders = [each for each in self.visible if source in each.sources and _realm(each) == _realm(group)]
            owner = min(holders, key=lambda each: (-len(each.sources), each.first))
            if owner.id == group.id:
                found.add(source)
        return frozenset(found)

    def is_damage(self, group: _Group) -> bool:
        """An incomplete group is damage if a source of it is neither gone nor visible elsewhere.

        Not so while its upload may still run, nor if it is a replacement that has not begun to count, nor if expired.
        """
        if group.complete or self._expired(group):
            return False
        if all(self.now - block.touched < self.times.sync_delay for block in group.blocks):
            return False
        return any(
            not self._is_visible(source, group)
            and not any(
                source in each.sources and self._expired(each) and _realm(each) == _realm(group) for each in self.ready
            )
            and not any(pair.by == source and self._is_replaceable(pair.root, group) for pair in group.any.retires)
            for source in self.live(group)
        )

    def _is_replaceable(self, root: str, group: _Group) -> bool:
        """Whether the source, or anything that stands for the same as it, is visible."""
        mine = _origins(root, self.pairs)
        return any(
            self._is_visible(source, group)
            for each in self.visible
            for source in self.live(each)
            if not mine.isdisjoint(_origins(source, self.pairs))
        )

    def _is_visible(self, source: str, group: _Group) -> bool:
        return any(source in self.live(each) and _realm(each) == _realm(group) for each in self.visible)


def _origins(source: str, pairs: frozenset[Replacement]) -> frozenset[str]:
    """Return what a source stands for in the end: itself, if it replaces nothing."""
    above = [pair.root for pair in pairs if pair.by == source]
    return frozenset().union(*(_origins(each, pairs) for each in above)) if above else frozenset({source})


def replaced(pairs: Iterable[Replacement]) -> frozenset[str]:
    """Return the roots, and of the sources that replace one root, directly or through others, all but the newest."""
    pairs = frozenset(pairs)
    roots = frozenset(pair.root for pair in pairs)

    def stands_for(source: str) -> frozenset[str]:
        above = [pair.root for pair in pairs if pair.by == source]
        return frozenset(above).union(*(stands_for(each) for each in above))

    def is_newest_for(source: str, root: str) -> bool:
        return not any(root in stands_for(pair.by) and pair.by > source for pair in pairs)

    def first_roots(source: str) -> frozenset[str]:
        return frozenset(root for root in stands_for(source) if not stands_for(root))

    older = (pair.by for pair in pairs if not any(is_newest_for(pair.by, root) for root in first_roots(pair.by)))
    return roots | frozenset(older)


def _realm(group: _Group) -> tuple[int, int]:
    return group.any.generation, group.any.resolution


def _preference(group: _Group) -> tuple[int, int, int, str]:
    """Among equals: more sources, gone ones included, then more edits, a higher rewrite number, the older."""
    return -len(group.sources), -len(group.any.edits), -group.any.rewrite, group.first


def _shared(block: Block) -> tuple[object, ...]:
    """What all blocks of a group must agree in."""
    return (
        block.group_size,
        block.sources,
        block.generation,
        block.resolution,
        block.rewrite,
        block.edits,
        block.retires,
    )
