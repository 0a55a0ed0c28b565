"""What must hold of every stream, whoever did what to it. Source: the design, "Visibility: what must hold".

Each check raises BrokenInvariantError that says what was found and what is right.
"""

from __future__ import annotations

from collections import Counter

from drystone.block.edits import Erase, Expire
from drystone.block.predicates import Comparison
from drystone.testing.history import History, Row
from drystone.testing.model import expect, replaced
from drystone.timeline.pending import PendingEdit
from drystone.timeline.timeline import Timeline, Visible

Realm = tuple[int, int]


class BrokenInvariantError(AssertionError):
    """What must hold does not."""


def read(history: History, timeline: Timeline) -> Counter[tuple[Realm, Row]]:
    """Return how often a reader of this timeline gets each row, by generation and resolution."""
    found: Counter[tuple[Realm, Row]] = Counter()
    for visible in timeline.visible.values():
        pattern = visible.group.pattern
        realm = (pattern.generation, pattern.resolution)
        for block in visible.group.members:
            found.update((realm, row) for row in history.rows[block.ulid] if _passes(row, visible))
    return found


def _passes(row: Row, visible: Visible) -> bool:
    return row.source not in visible.excluded and not any(takes(each, row) for each in visible.edits)


def takes(pending: PendingEdit, row: Row) -> bool:
    """Tell whether an edit that a group has not applied takes the row away."""
    if pending.sources is not None and row.source not in pending.sources:
        return False
    match pending.edit:
        case Expire(before=before):
            return row.time < before
        case Erase(predicate=Comparison(value=value)):
            return row.kind == value
        case _:
            raise NotImplementedError(pending.edit)


def wanted(history: History, now: int) -> Counter[tuple[Realm, Row]]:
    """Return what a reader must get at `now`: once each, the rows of what is ready, but those that are gone."""
    ready, pairs, edits = history.ready_at(now), history.pairs_at(now), history.edits_at(now)
    gone = replaced(pairs)
    found: set[tuple[Realm, Row]] = set()
    for blocks in ready.values():
        realm = (blocks[0].generation, blocks[0].resolution)
        for source in blocks[0].sources - gone:
            rows = history.all_rows(source)
            found.update((realm, row) for row in rows if not history.removed_by(edits, row, pairs, realm[1]))
    return Counter(found)


def check_read_exactly_once(history: History, timeline: Timeline) -> None:
    """Every row of a ready source is read once, and none that is fresh, incomplete, erased, retired or replaced."""
    got, due = read(history, timeline), wanted(history, timeline.at)
    if got != due:
        raise BrokenInvariantError(f"too often, or at all: {dict(got - due)}; missing: {dict(due - got)}")


def check_against_model(history: History, timeline: Timeline) -> None:
    """The timeline says of every group what the reference model says."""
    due = expect(history.blocks, history.edits, history.times, timeline.at)
    found = {
        "visible": (timeline.visible.keys(), due.visible),
        "covered": (timeline.covered.keys(), due.covered),
        "out": (timeline.out.keys(), due.out),
        "pending": (timeline.pending.keys(), due.pending),
        "incomplete": (timeline.incomplete.keys(), due.incomplete),
        "gone": (timeline.gone.sources, due.gone),
        "damage": ({damage.name for damage in timeline.damage}, due.damage),
        "covering": ({by for by in timeline.covered.values() if by not in due.visible}, frozenset[str]()),
    }
    for name, each in timeline.visible.items():
        found[f"read from {name}"] = (each.group.sources - each.excluded - due.gone, due.reads.get(name, frozenset()))
        found[f"gone of {name}"] = (each.gone - due.gone, frozenset())
    for what, (got, right) in found.items():
        if got != right:
            raise BrokenInvariantError(f"{what}: {sorted(got)}, and it is {sorted(right)}")
