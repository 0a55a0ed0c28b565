"""Groups: blocks that are visible together or not at all. Source: the design, "Visibility: groups"."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drystone.block.chunks import Chunk, covering_chunk
from drystone.block.meta import Replacement
from drystone.timeline.blocks import Block


@dataclass(frozen=True, slots=True)
class Group:
    """The blocks of one group id.

    `members` holds one loadable block per index, the oldest that is ready (or else the oldest), in the order of the
    indexes; `others` holds the rest: twins that a retried task left, and blocks that cannot be loaded.
    """

    id: str
    members: tuple[Block, ...]
    others: tuple[Block, ...]

    @property
    def pattern(self) -> Block:
        """Any of its blocks: they all agree in what belongs to the group."""
        return self.members[0] if self.members else self.others[0]

    @property
    def sources(self) -> frozenset[str]:
        """The whole source set."""
        return self.pattern.sources

    @property
    def edits(self) -> frozenset[str]:
        """The edits whose rows were left out when it was written."""
        return self.pattern.edits

    @property
    def retires(self) -> frozenset[Replacement]:
        """The replacements that it carries or was written under."""
        return self.pattern.retires

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Every block of the group, members first."""
        return self.members + self.others

    @property
    def complete(self) -> bool:
        """Whether every index has a loadable block."""
        return len(self.members) == self.pattern.group_size

    @property
    def was_whole(self) -> bool:
        """Whether every index has a block, loadable or not: as meta.json comes last, there was a loadable one once."""
        return self.complete or len({block.group_index for block in self.blocks}) == self.pattern.group_size

    @property
    def was_expired(self) -> bool:
        """Whether a mark says that every row of the group was expired: what lacks has been deleted, and is not lost."""
        return any(block.expired for block in self.blocks)

    @property
    def min_time(self) -> int:
        """Start of the time range."""
        blocks = self.members or self.others
        return blocks[0].min_time if len(blocks) == 1 else min(block.min_time for block in blocks)

    @property
    def max_time(self) -> int:
        """End of the time range, exclusive."""
        blocks = self.members or self.others
        return blocks[0].max_time if len(blocks) == 1 else max(block.max_time for block in blocks)

    @property
    def first(self) -> str:
        """The oldest member's ULID: the group's age."""
        blocks = self.members or self.others
        return blocks[0].ulid if len(blocks) == 1 else min(block.ulid for block in blocks)

    @property
    def touched(self) -> int:
        """When the youngest of its blocks was last touched, in ms."""
        return max(block.touched for block in self.blocks)

    @property
    def rows(self) -> int:
        """Rows of its members."""
        return sum(block.rows for block in self.members)

    @property
    def size(self) -> int:
        """Bytes of its members."""
        return sum(block.size for block in self.members)

    @property
    def chunk(self) -> Chunk | None:
        """The chunk of the group's granularity, or the finest coarser one, that holds its whole time range."""
        # An empty range still lies somewhere.
        return covering_chunk(self.min_time, max(self.max_time, self.min_time + 1), self.pattern.granularity)

    def ready(self, now: int, sync_delay: int) -> bool:
        """Tell whether it is complete, and every member is ready."""
        if len(self.members) == 1:  # As nearly all groups are, and there may be a million.
            return self.complete and self.members[0].ready(now, sync_delay)
        return self.complete and all(block.ready(now, sync_delay) for block in self.members)


def group_blocks(blocks: Iterable[Block], now: int, sync_delay: int) -> tuple[dict[str, Group], dict[str, str]]:
    """Return the groups by id, and for each group whose blocks disagree, by id, in what they do.

    Blocks that disagree form no group: nobody can tell which of them to believe.
    """
    several: dict[str, list[Block]] = {}
    groups: dict[str, Group] = {}
    for block in blocks:
        name = block.group
        if block.group_size == 1 and name == block.ulid and block.loadable:
            groups[name] = Group(name, (block,), ())
        else:
            several.setdefault(name, []).append(block)
    disagreeing: dict[str, str] = {}
    for name, found in several.items():
        if name in groups:
            found.extend(groups.pop(name).members)
        difference = _disagreement(found)
        if difference:
            disagreeing[name] = difference
        else:
            groups[name] = _assemble(name, found, now, sync_delay)
    return groups, disagreeing


def _assemble(name: str, blocks: list[Block], now: int, sync_delay: int) -> Group:
    """Choose the members. Those that are ready come first: a late twin must not take a ready group back."""

    def rank(block: Block) -> tuple[bool, str]:
        return (not block.ready(now, sync_delay), block.ulid)

    members: dict[int, Block] = {}
    others: list[Block] = []
    for block in sorted(blocks, key=rank):
        if block.loadable and block.group_index not in members:
            members[block.group_index] = block
        else:
            others.append(block)
    return Group(name, tuple(members[index] for index in sorted(members)), tuple(others))


def _disagreement(blocks: list[Block]) -> str:
    first = blocks[0]
    for field in ("group_size", "sources", "generation", "resolution", "rewrite", "edits", "retires"):
        if any(getattr(block, field) != getattr(first, field) for block in blocks):
            return field
    return ""
