"""What a stream holds and how it came to be: blocks with the rows that each of them really has.

The few rows of a source are enough to see whether one is read twice, lost, or back from the dead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from drystone import ulids
from drystone.block.edits import Edit, Erase, Expire, Retire
from drystone.block.meta import Replacement
from drystone.block.predicates import Comparison
from drystone.block.states import Times
from drystone.timeline.blocks import Block

DAY = 86_400_000
BEGIN = 1_700_000_000_000 // DAY * DAY
KINDS = ("x", "y")


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """One row: its source, its event time (ms), and the one column that an erase looks at."""

    source: str
    time: int
    kind: str


@dataclass(slots=True, repr=False)
class History:
    """The blocks, their rows by ULID, the edits, and the time range and generation of each source.

    `now` is when the last thing happened; `made` counts the ids that were given away. Times are ms.
    """

    times: Times = field(default_factory=Times)
    now: int = BEGIN
    blocks: list[Block] = field(default_factory=list)
    rows: dict[str, Collection[Row]] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)
    made: int = 0

    def __repr__(self) -> str:
        """List what happened, with sources and groups by short names, for a failing test's output."""
        names = {
            source: chr(ord("A") + number % 26) + "'" * (number // 26) for number, source in enumerate(self.ranges)
        }
        lines = [f"History(now={self.now - BEGIN} ms after BEGIN"]
        lines += [_describe(block, names) for block in self.blocks]
        lines += [f"  {edit.kind} at {edit.time - BEGIN}: {edit!r}" for edit in self.edits]
        return "\n".join(lines) + ")"

    def ready_at(self, moment: int) -> dict[str, list[Block]]:
        """Return the groups that were ready at a moment, by id: one block for each index."""
        found: dict[str, dict[int, Block]] = {}
        for block in sorted(self.blocks, key=lambda each: each.ulid):
            if block.loadable and (block.ignore_delay or block.touched <= moment - self.times.sync_delay):
                found.setdefault(block.group, {}).setdefault(block.group_index, block)
        return {
            name: list(members.values())
            for name, members in found.items()
            if len(members) == next(iter(members.values())).group_size
        }

    def pairs_at(self, moment: int) -> frozenset[Replacement]:
        """Return what was known to be replaced at a moment."""
        return frozenset(pair for members in self.ready_at(moment).values() for pair in members[0].retires)

    def edits_at(self, moment: int) -> list[Edit]:
        """Return the edits that were there at a moment."""
        return [edit for edit in self.edits if edit.time <= moment]

    def new_ulid(self, moment: int) -> str:
        """Return a ULID of that time, never the same."""
        self.made += 1
        return ulids.derive(moment, "made", str(self.made))

    def all_rows(self, source: str) -> frozenset[Row]:
        """Return all rows that the source ever had."""
        low, high = self.ranges[source]
        return frozenset({Row(source, low, KINDS[0]), Row(source, high - 1, KINDS[1])})

    def removed_by(self, edits: Iterable[Edit], row: Row, pairs: frozenset[Replacement], resolution: int = 0) -> bool:
        """Tell whether one of these edits takes the row from blocks of a resolution, given what replaces what."""
        return any(self._removes(edit, row, pairs, resolution) for edit in edits)

    def _removes(self, edit: Edit, row: Row, pairs: frozenset[Replacement], resolution: int) -> bool:
        match edit:
            case Expire():
                return row.time < edit.before and edit.resolution in {None, resolution}
            case Retire():
                return any(each in edit.sources for each in _lineage(row.source, pairs))
            case Erase():
                limit = edit.time + self.times.clock_skew
                matches = isinstance(edit.predicate, Comparison) and edit.predicate.value == row.kind
                return matches and any(ulids.time_of(each) < limit for each in _lineage(row.source, pairs))


def _describe(block: Block, names: dict[str, str]) -> str:
    flags = [name for name in ("ignore_delay",) if getattr(block, name)] + ([] if block.loadable else ["broken"])
    replaced = [f"{names[pair.root]}->{names[pair.by]}" for pair in sorted(block.retires, key=lambda pair: pair.by)]
    return (
        f"  {block.ulid} {block.group_index + 1}/{block.group_size} of {block.group}: "
        f"{''.join(sorted(names[source] for source in block.sources))} {' '.join([*flags, *replaced])} "
        f"rewrite {block.rewrite}, {len(block.edits)} edits, realm {block.generation}/{block.resolution}, "
        f"[{block.min_time - BEGIN}, {block.max_time - BEGIN}), touched {block.touched - BEGIN}"
    )


def _lineage(source: str, pairs: frozenset[Replacement]) -> set[str]:
    """Return the source and all that it stands for."""
    found, todo = {source}, [source]
    while todo:
        each = todo.pop()
        todo += [pair.root for pair in pairs if pair.by == each]
        found.update(todo)
    return found
