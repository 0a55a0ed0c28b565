"""What an edit would take is planned before it is written, and a request that was answered is not answered twice."""

from __future__ import annotations

import pytest
from shelf import DAY, FIRST, NOW, Shelf

from drystone.block.edits import Edit, Erase, Expire, Retire
from drystone.block.predicates import Comparison
from drystone.errors import UsageError
from drystone.plan.edits import Asked, Seen, plan_erase, plan_retain, plan_retire
from drystone.plan.model import Plan
from drystone.testing.writers import FIVE_MINUTES

WHY = Asked("a reason", "ann")
OSLO = Comparison(column="city", op="=", value="Oslo")


def seen(shelf: Shelf) -> Seen:
    """Look at a shelf."""
    return Seen(shelf.snapshot(), shelf.timeline(), shelf.times, "plan")


def retain(shelf: Shelf, days: float, resolution: int = 0) -> Plan:
    """Plan to keep what is younger than so many days, counted from the shelf's first day on."""
    shelf.now = FIRST + 100 * DAY
    return plan_retain(seen(shelf), {resolution: round(days * DAY)}, "day", "ann")


def retire(shelf: Shelf, sources: str = "", blocks: str = "") -> Plan:
    """Plan to retire sources and groups."""
    ulids = [ulid for name in blocks for ulid in shelf.blocks(name)]
    return plan_retire(seen(shelf), [shelf.source(letter) for letter in sources], ulids, WHY)


def carry_out(shelf: Shelf, plan: Plan) -> list[Edit]:
    """Write the plan's edits."""
    shelf.edits += [each.edit for each in plan.edits]
    return [each.edit for each in plan.edits]


def taken(shelf: Shelf, plan: Plan) -> dict[str, bool]:
    """Return which groups lose rows, and whether all of them."""
    return {next(iter(shelf.names([each.group]))): each.whole for edit in plan.edits for each in edit.taken}


def test_retention_expires_whole_time_chunks() -> None:
    """The limit is a chunk's beginning: groups that end before it go whole, one that lies across it loses some rows."""
    shelf = Shelf()
    for name, day, days in (("a", 0, 1), ("b", 1, 1), ("c", 1, 2), ("d", 2, 1), ("e", 50, 1)):
        shelf.add(name, day=day, days=days, age=350 * DAY)
    plan = retain(shelf, 97.5)
    (edit,) = carry_out(shelf, plan)
    assert isinstance(edit, Expire)
    assert (edit.before, edit.resolution, edit.author) == (FIRST + 2 * DAY, 0, "ann")
    assert edit.reason == "raw rows are kept for 2340h"
    assert taken(shelf, plan) == {"a": True, "b": True, "c": False}
    assert shelf.timeline().out.keys() == {shelf.groups["a"], shelf.groups["b"]}


def test_retention_is_asked_for_once_a_chunk() -> None:
    """Asked again before the next chunk has ended, or with nothing that old, retention plans no edit, and says why."""
    shelf = Shelf()
    for name in "ab":
        shelf.add(name, day=ord(name) - ord("a"), age=350 * DAY)
    carry_out(shelf, retain(shelf, 99))
    again = retain(shelf, 98.9)
    assert again.edits == ()
    assert shelf.skips(again) == {"raw rows": "nothing that is read is older than 2013-01-02T00:00:00Z"}
    assert carry_out(shelf, retain(shelf, 98))
    assert retain(shelf, 50).edits == ()


def test_retention_is_kept_apart_by_resolution() -> None:
    """What expires of raw rows is still read of coarser ones, which have a retention, or none, of their own."""
    shelf = Shelf()
    shelf.add("a", age=350 * DAY)
    shelf.add("b", age=350 * DAY, resolution=FIVE_MINUTES)
    carry_out(shelf, retain(shelf, 10))
    assert shelf.timeline().visible.keys() == {shelf.groups["b"]}
    assert taken(shelf, retain(shelf, 10, FIVE_MINUTES)) == {"b": True}


def test_what_expired_in_one_resolution_keeps_its_copy_in_another() -> None:
    """A coarse group whose rows were replaced is not removed because their raw form expired."""
    shelf = Shelf()
    shelf.add("a", of="a", age=350 * DAY)
    shelf.add("f", of="ab", age=350 * DAY, resolution=FIVE_MINUTES, members=2, there=[0])
    carry_out(shelf, retain(shelf, 10))
    assert "f" not in shelf.justified()


def test_a_block_is_retired_by_its_sources() -> None:
    """Retiring a block retires its sources: groups that hold others besides go on without these rows."""
    shelf = Shelf()
    shelf.add("a")
    shelf.add("f", of="ab")
    shelf.add("x", of="bcd", days=2)
    plan = retire(shelf, blocks="a")
    (edit,) = carry_out(shelf, plan)
    assert isinstance(edit, Retire)
    assert edit.sources == (shelf.source("a"),)
    assert taken(shelf, plan) == {"f": True}, "x owns b"
    assert shelf.timeline().out.keys() == {shelf.groups["a"]}


def test_the_whole_family_is_retired() -> None:
    """With a source goes all that it replaced and all that replaced the same: else an old copy would come back."""
    shelf = Shelf()
    shelf.add("a")
    shelf.add("b", retires=shelf.pair("a", "b"))
    shelf.add("c", retires=shelf.pair("a", "c"))
    for letter in "abc":
        (edit,) = retire(shelf, letter).edits
        assert isinstance(edit.edit, Retire)
        assert set(edit.edit.sources) == {shelf.source(each) for each in "abc"}


def test_a_retirement_is_asked_for_once() -> None:
    """The same sources again, named by themselves or by their block, need no second edit, nor does a late relative."""
    shelf = Shelf()
    shelf.add("a")
    carry_out(shelf, retire(shelf, "a"))
    for again in (retire(shelf, "a"), retire(shelf, blocks="a")):
        assert again.edits == ()
        assert [skip.reason for skip in again.skipped] == ["it is retired already"]
    shelf.add("d", retires=shelf.pair("a", "d"))
    late = retire(shelf, "a")
    assert late.edits == ()
    assert [skip.reason for skip in late.skipped] == ["they are retired already"]


@pytest.mark.parametrize(("sources", "blocks", "said"), [("z", "", "no source"), ("", "", "nothing is named")])
def test_what_is_not_there_cannot_be_retired(sources: str, blocks: str, said: str) -> None:
    """A source that nobody has is a mistake of whoever asks, and so is asking for nothing."""
    shelf = Shelf()
    shelf.add("a")
    with pytest.raises(UsageError, match=said):
        retire(shelf, sources, blocks)


def test_a_block_that_is_not_there_cannot_be_retired() -> None:
    """A ULID that names no block is a mistake, too."""
    with pytest.raises(UsageError, match="has no block"):
        plan_retire(seen(Shelf()), [], ["01ARZ3NDEKTSV4RRFFQ69G5FAV"], WHY)


def test_an_erasure_takes_from_sources_that_are_planned_by_now() -> None:
    """What was planned later is not hit, what replaces something older is; a plan names groups and their sources."""
    shelf = Shelf(now=FIRST + ord("b") - 60_000)
    for name in "ab":
        shelf.add(name, age=2 * DAY)
    shelf.add("f", of="ace", age=DAY)
    plan = plan_erase(seen(shelf), OSLO, WHY)
    (action,) = plan.edits
    found = {next(iter(shelf.names([each.group]))): each.sources for each in action.taken}
    assert found == {"f": (shelf.source("a"),)}
    assert isinstance(action.edit, Erase)
    assert (action.edit.predicate, action.edit.time) == (OSLO, shelf.now)


def test_an_erasure_is_asked_for_once() -> None:
    """The same request gives the same edit, whenever it comes; another predicate, reason or key gives another one."""
    shelf = Shelf()
    shelf.add("a")
    first = carry_out(shelf, plan_erase(seen(shelf), OSLO, WHY))
    shelf.now = NOW + DAY
    again = plan_erase(seen(shelf), OSLO, Asked(WHY.reason, "bob"))
    assert again.edits == ()
    assert "it is in force since" in again.skipped[0].reason
    others = [
        plan_erase(seen(shelf), Comparison(column="city", op="=", value="Lund"), WHY),
        plan_erase(seen(shelf), OSLO, Asked("another reason", "ann")),
        plan_erase(seen(shelf), OSLO, Asked(WHY.reason, "ann", "2")),
    ]
    ids = {edit.edit.id for plan in others for edit in plan.edits}
    assert len(ids) == 3
    assert ids.isdisjoint(edit.id for edit in first)
