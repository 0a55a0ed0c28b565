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
        named = frozenset(source for edit in edits if isinstance(edit, Retire) for source in edit.sources)
        self.retired = named | {pair.by for pair in self.pairs if stands_for(pair.by, self.pairs) & named}
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
        known = (
            group.complete
            or group.any.level > 1
            or len({b.group_index for b in group.blocks}) == group.any.group_size
            or any(block.expired for block in group.blocks)
        )
        end = group.end if group.complete else max(block.max_time for block in group.blocks)
        return known and any(
            isinstance(edit, Expire) and end <= edit.before and edit.resolution in {None, group.any.resolution}
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

        Not so while its upload may still run, nor if it is a replacement that was never whole, nor if expired.
        """
        if group.complete or self._expired(group):
            return False
        hurry = self.times.max_lag + self.times.clock_skew
        waits = ((b, hurry if b.ignore_delay else self.times.sync_delay) for b in group.blocks)
        if all(self.now - block.touched < wait for block, wait in waits):
            return False
        was_whole = len({block.group_index for block in group.blocks}) == group.any.group_size
        over = [each for each in self.groups if (each.ready or not each.complete) and self._expired(each)]
        return any(
            not self._is_visible(source, group)
            and not any(source in each.sources and _realm(each) == _realm(group) for each in over)
            and (was_whole or not self._replaces_what_is_known(source, group, over))
            for source in self.live(group) - self._gone_by_its_own_word(group)
        )

    def _gone_by_its_own_word(self, group: _Group) -> frozenset[str]:
        pairs = self.pairs | group.any.retires
        return replaced(pairs) | {pair.by for pair in pairs if stands_for(pair.by, pairs) & self.retired}

    def _replaces_what_is_known(self, source: str, group: _Group, over: list[_Group]) -> bool:
        """Whether what is read in place of the source's root is visible, or is to be read nowhere."""
        expired = frozenset[str]().union(*(each.sources for each in over if _realm(each) == _realm(group)))
        places = {self._in_place_of(pair.root) for pair in group.any.retires if pair.by == source}
        return any(each in self.retired | expired or self._is_visible(each, group) for each in places)

    def _in_place_of(self, root: str) -> str:
        mine = first_roots(root, self.pairs)
        return max((pair.by for pair in self.pairs if first_roots(pair.by, self.pairs) & mine), default=root)

    def _is_visible(self, source: str, group: _Group) -> bool:
        return any(source in self.live(each) and _realm(each) == _realm(group) for each in self.visible)


def replaced(pairs: Iterable[Replacement]) -> frozenset[str]:
    """Return the roots, and of the sources that replace one root, directly or through others, all but the newest."""
    pairs = frozenset(pairs)
    roots = frozenset(pair.root for pair in pairs)

    def is_newest_for(source: str, root: str) -> bool:
        return not any(root in stands_for(pair.by, pairs) and pair.by > source for pair in pairs)

    older = (pair.by for pair in pairs if not any(is_newest_for(pair.by, root) for root in first_roots(pair.by, pairs)))
    return roots | frozenset(older)


def stands_for(source: str, pairs: frozenset[Replacement]) -> frozenset[str]:
    """Return all that a source replaces, directly or through others."""
    above = [pair.root for pair in pairs if pair.by == source]
    return frozenset(above).union(*(stands_for(each, pairs) for each in above))


def first_roots(source: str, pairs: frozenset[Replacement]) -> frozenset[str]:
    """Return what a source stands for in the end: itself, if it replaces nothing."""
    above = stands_for(source, pairs)
    return frozenset(root for root in above if not stands_for(root, pairs)) or frozenset({source})


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
