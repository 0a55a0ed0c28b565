"""Holds and unmarkings are planned, too: what a person keeps is kept, and not against another person."""

from __future__ import annotations

import pytest
from shelf import DAY, HOUR, Shelf

from drystone.block.guards import Hold
from drystone.errors import UsageError
from drystone.plan.edits import Asked, Seen
from drystone.plan.guards import plan_hold, plan_release, plan_unmark
from drystone.plan.model import Plan

WHY = Asked("a repair", "ann")


def seen(shelf: Shelf) -> Seen:
    """Look at a shelf."""
    return Seen(shelf.snapshot(), shelf.timeline(), shelf.times, "plan")


def place(shelf: Shelf, plan: Plan) -> dict[str, Hold]:
    """Place the plan's holds; return them by name."""
    shelf.holds += [each.hold for each in plan.holds]
    return {each.name: each.hold for each in plan.holds}


def unmark(shelf: Shelf, name: str) -> Plan:
    """Plan to unmark a group's one block."""
    (ulid,) = shelf.blocks(name)
    return plan_unmark(seen(shelf), {}, ulid, WHY, 7 * DAY)


def test_the_same_hold_again_is_nothing_to_do() -> None:
    """A hold that is there stays as it is; one of other terms under its name is refused; an expired one is replaced."""
    shelf = Shelf()
    shelf.add("a")
    held = place(shelf, plan_hold(seen(shelf), {}, "fix", shelf.blocks("a"), WHY, HOUR))
    shelf.now += 60_000
    assert plan_hold(seen(shelf), held, "fix", shelf.blocks("a"), WHY, HOUR).actions == ()
    for blocks, why, length in (([], WHY, HOUR), (shelf.blocks("a"), Asked("x", "bob"), HOUR), ([], WHY, 2 * HOUR)):
        with pytest.raises(UsageError, match="has another hold fix, by ann: a repair"):
            plan_hold(seen(shelf), held, "fix", blocks, why, length)
    shelf.now += HOUR
    assert plan_hold(seen(shelf), held, "fix", [], Asked("x", "bob"), HOUR).holds


@pytest.mark.parametrize("name", ["", "a/b", "../x", ".hidden", "x" * 101])
def test_a_hold_needs_a_name(name: str) -> None:
    """A name that could not be an object's is refused."""
    with pytest.raises(UsageError, match="cannot name a hold"):
        plan_hold(seen(Shelf()), {}, name, [], WHY, HOUR)
    with pytest.raises(UsageError, match="cannot name a hold"):
        plan_release(seen(Shelf()), {}, name, WHY)


def test_a_block_that_is_not_there_is_not_held() -> None:
    """Who mistypes a block is told so, and does not believe that it is kept."""
    with pytest.raises(UsageError, match="has no block"):
        plan_hold(seen(Shelf()), {}, "fix", ["01ARZ3NDEKTSV4RRFFQ69G5FAV"], WHY, HOUR)


def test_releasing_what_is_not_held_is_nothing_to_do() -> None:
    """A release has one action if there is such a hold, and none otherwise."""
    shelf = Shelf()
    held = place(shelf, plan_hold(seen(shelf), {}, "fix", [], WHY, HOUR))
    assert [each.name for each in plan_release(seen(shelf), held, "fix", WHY).releases] == ["fix"]
    assert plan_release(seen(shelf), {}, "fix", WHY).actions == ()


def test_what_was_marked_by_mistake_is_unmarked() -> None:
    """Where nothing supersedes the block, the next mark run would leave it alone: no hold is needed."""
    shelf = Shelf()
    shelf.add("a")
    shelf.mark("a")
    plan = unmark(shelf, "a")
    assert [each.ulid for each in plan.unmarks] == shelf.blocks("a")
    assert plan.holds == ()


@pytest.mark.parametrize("why", ["covered", "retired", "expired"])
def test_what_would_be_marked_again_is_held_first(why: str) -> None:
    """A covered, retired or expired block is held before its mark goes, and no mark run plans to mark it meanwhile."""
    shelf = Shelf()
    shelf.add("a")
    if why == "covered":
        shelf.add("f", of="ab")
    elif why == "retired":
        shelf.retire("a")
    else:
        shelf.expire(1)
    shelf.mark("a")
    plan = unmark(shelf, "a")
    assert [each.action for each in plan.actions] == ["hold", "unmark"]
    (ulid,) = shelf.blocks("a")
    (name, hold), *_ = place(shelf, plan).items()
    assert (name, hold.blocks, hold.expires) == (f"unmark-{ulid}", (ulid,), shelf.now + 7 * DAY)
    assert why in hold.reason
    shelf.add("a", age=DAY)
    assert ulid not in shelf.marks().model_dump_json().split('"skipped"')[0]
    shelf.now += 7 * DAY
    assert "a" in shelf.names(mark.ulid for mark in shelf.marks().marks)


def test_unmarking_what_is_not_marked_is_nothing_to_do() -> None:
    """An unmarked block needs no action; one whose deletion has begun, or that is not there, is beyond it."""
    shelf = Shelf()
    shelf.add("a")
    assert unmark(shelf, "a").actions == ()
    with pytest.raises(UsageError, match="has no block"):
        plan_unmark(seen(shelf), {}, "01ARZ3NDEKTSV4RRFFQ69G5FAV", WHY, DAY)
