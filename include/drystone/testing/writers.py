"""What writers do to a stream, as its history sees it: uploads, compactions, replacements, zombies among them all.

Each compaction works from what was ready at some moment of the past, whenever it uploads, and leaves out exactly the
rows that it says it leaves out: as Drystone's own do.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from drystone import ulids
from drystone.block.meta import Replacement
from drystone.testing.history import History, Row
from drystone.testing.model import replaced
from drystone.timeline.blocks import Block

FIVE_MINUTES = 300_000
"""A resolution."""


@dataclass(frozen=True, slots=True)
class Output:
    """How a group comes to be uploaded: how many blocks it has, which of them never arrive or arrive broken.

    `twins`: indexes that are uploaded a second time, `lag` ms later. `lost`, `broken`: indexes.
    """

    size: int = 1
    twins: frozenset[int] = frozenset()
    lost: frozenset[int] = frozenset()
    broken: frozenset[int] = frozenset()
    lag: int = 1_000
    ignore_delay: bool = False


WHOLE = Output()


def plan_source(history: History, low: int, high: int, generation: int = 0) -> str:
    """Return a new source, planned now, whose rows lie in [low, high)."""
    source = ulids.derive(history.now, "source", str(len(history.ranges)))
    history.ranges[source] = (low, high)
    history.generations[source] = generation
    return source


def upload(history: History, source: str, *, wider: int = 0, output: Output = WHOLE) -> None:
    """Upload the rows of a source as a block of their own; `wider`: ms that its time range is too long at both ends."""
    low, high = history.ranges[source]
    block = Block(
        ulid="",
        min_time=low - wider,
        max_time=high + wider,
        sources=frozenset({source}),
        touched=0,
        group="",
        generation=history.generations[source],
    )
    _add_group(history, block, history.all_rows(source), replace(output, size=1, twins=frozenset()))


def compact(
    history: History,
    inputs: Collection[str],
    known_at: int,
    *,
    output: Output = WHOLE,
    rewrite: int = 0,
    resolution: int = 0,
) -> None:
    """Upload what a compaction of these groups makes of them that looked at the stream at `known_at`.

    `inputs`: ids of groups that were ready then, of one generation and resolution. `rewrite`: what is added to the
    inputs' highest number.
    """
    ready = history.ready_at(known_at)
    members = [block for name in inputs for block in ready[name]]
    pairs, edits = history.pairs_at(known_at), history.edits_at(known_at)
    rows = frozenset[Row]().union(*(history.rows[block.ulid] for block in members))
    gone = replaced(pairs)
    kept = frozenset(
        row for row in rows if row.source not in gone and not history.removed_by(edits, row, pairs, resolution)
    )
    block = Block(
        ulid="",
        min_time=min(each.min_time for each in members),
        max_time=max(each.max_time for each in members),
        sources=frozenset[str]().union(*(each.sources for each in members)),
        touched=0,
        group="",
        generation=members[0].generation,
        resolution=resolution,
        rewrite=max(each.rewrite for each in members) + rewrite,
        edits=frozenset(edit.id for edit in edits),
        retires=pairs,
        level=2,
    )
    _add_group(history, block, kept, output)


def replace_source(history: History, root: str, known_at: int, low: int, high: int, output: Output = WHOLE) -> None:
    """Upload other rows, in [low, high), in place of a source that could be read at `known_at`."""
    planned = max(history.now, ulids.time_of(root) + 1)
    by = ulids.derive(planned, root, str(len(history.ranges)))
    history.ranges[by] = (low, high)
    history.generations[by] = history.generations[root]
    pairs = history.pairs_at(known_at)
    block = Block(
        ulid="",
        min_time=low,
        max_time=high,
        sources=frozenset({by}),
        touched=0,
        group="",
        generation=history.generations[root],
        retires=frozenset({Replacement(root=root, by=by), *_above(root, pairs)}),
    )
    _add_group(history, block, history.all_rows(by), output)


def _above(source: str, pairs: frozenset[Replacement]) -> frozenset[Replacement]:
    """Return what the source itself replaced, and so on: it is inherited."""
    direct = frozenset(pair for pair in pairs if pair.by == source)
    return direct.union(*(_above(pair.root, pairs) for pair in direct))


def _add_group(history: History, pattern: Block, rows: frozenset[Row], output: Output) -> None:
    parts = [frozenset(row for row in rows if _index(row, output.size) == index) for index in range(output.size)]
    group = history.new_ulid(history.now) if output.size > 1 or output.twins else ""
    firsts = [(index, False) for index in range(output.size) if index not in output.lost]
    for index, again in (*firsts, *((index, True) for index in sorted(output.twins))):
        ulid = history.new_ulid(history.now)
        block = replace(
            pattern,
            ulid=ulid,
            group=group or ulid,
            group_size=output.size,
            group_index=index,
            touched=history.now + (output.lag if again else 0),
            loadable=again or index not in output.broken,
            ignore_delay=output.ignore_delay,
        )
        history.blocks.append(block)
        history.rows[ulid] = parts[index]


def _index(row: Row, size: int) -> int:
    return (row.time // 1000) % size
