"""Which blocks an erasure still has to do with, and what is rewritten to drop such rows for good."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from shelf import DAY, FIRST, HOUR, Shelf

from drystone import ulids
from drystone.block.edits import Erase
from drystone.block.folder import Folder
from drystone.block.predicates import Comparison
from drystone.plan.edits import Seen
from drystone.plan.erasures import Remains, check_erasure, plan_rewrite
from drystone.plan.model import Plan
from drystone.testing import folders

OSLO = Comparison(column="city", op="=", value="Oslo")


def erase(shelf: Shelf, letter: str = "m") -> Erase:
    """Erase from sources that were planned before the one of this letter."""
    when = FIRST + ord(letter) - shelf.times.clock_skew
    edit = Erase(id=ulids.derive(0, letter), reason="", author="", time=when, predicate=OSLO)
    shelf.edits.append(edit)
    return edit


def remains(shelf: Shelf, edit: Erase, *clear: str) -> Remains:
    """Check an erasure; `clear`: groups that were looked through."""
    looked = frozenset(ulid for name in clear for ulid in shelf.blocks(name))
    return check_erasure(shelf.snapshot(), shelf.timeline(), shelf.times, edit, looked)


def left(shelf: Shelf, edit: Erase, *clear: str) -> dict[str, str]:
    """Return what is left, by short name."""
    found = remains(shelf, edit, *clear).left
    ids = {ulid: name for name in shelf.groups for ulid in shelf.blocks(name)}
    return {ids.get(each.block, each.block): each.why.split(":")[0] for each in found}


def rewrite(shelf: Shelf, taken: Mapping[str, int], **rules: object) -> Plan:
    """Plan rewrites; `taken`: rows by group."""
    by_block = {ulid: rows for name, rows in taken.items() for ulid in shelf.blocks(name)}
    seen = Seen(shelf.snapshot(), shelf.timeline(), shelf.times, "plan")
    return plan_rewrite(seen, shelf.policy(**rules), 2, by_block)


def test_every_block_that_may_hold_such_rows_is_left() -> None:
    """Visible, covered, fresh and incomplete ones are; what applied the edit, holds later rows or is clear is not."""
    shelf = Shelf()
    edit = erase(shelf)
    shelf.add("a")
    shelf.add("b")
    shelf.add("c")
    shelf.add("f", of="bc")
    shelf.add("d", age=60_000)
    shelf.add("e", members=2, there=[0])
    shelf.add("n")
    shelf.add("g", edits=frozenset({edit.id}))
    shelf.add("h")
    assert left(shelf, edit, "h") == {
        "a": "it has not been looked through or rewritten yet",
        "b": "superseded",
        "c": "superseded",
        "f": "it has not been looked through or rewritten yet",
        "d": "it is not ready yet",
        "e": "its group is not whole",
    }
    found = remains(shelf, edit, "h")
    assert (found.applied, found.later, list(found.clear)) == (1, 1, shelf.blocks("h"))


def test_what_nobody_can_read_is_left() -> None:
    """A block without its meta.json, or with a broken one, may hold anything; an upload that runs is only noted."""
    shelf = Shelf()
    edit = erase(shelf)
    for name, age in (("a", DAY), ("b", DAY), ("c", 60_000), ("d", DAY)):
        shelf.add(name, age=age)
    shelf.change("a", folders.without_meta)
    shelf.mark("b", HOUR)
    shelf.change("b", folders.without_meta)
    shelf.change("c", folders.without_meta)
    shelf.change("d", _broken)
    found = remains(shelf, edit)
    assert {each.block: each.why.split(":")[0] for each in found.left} == {
        shelf.groups["a"]: "an upload that never finished",
        shelf.groups["b"]: "its deletion has begun",
        shelf.groups["d"]: "its meta.json cannot be read, or is another tool's",
    }
    assert list(found.uploading) == [shelf.groups["c"]]


def _broken(folder: Folder) -> Folder:
    return replace(folder, meta=None, sources=frozenset(), meta_error="broken")


def test_a_late_block_reopens_an_erasure() -> None:
    """When nothing is left, a block that comes later and lacks the edit is left again, whoever uploads it."""
    shelf = Shelf()
    edit = erase(shelf)
    shelf.add("a", edits=frozenset({edit.id}))
    assert left(shelf, edit) == {}
    shelf.add("zombie", of="a", age=60_000)
    assert left(shelf, edit) == {"zombie": "it is not ready yet"}


def test_what_replaces_an_old_source_is_left_too() -> None:
    """A source that was planned later is hit if it stands for one of before, even before its block is ready."""
    shelf = Shelf()
    edit = erase(shelf)
    shelf.add("a", edits=frozenset({edit.id}))
    shelf.add("z", retires=shelf.pair("a", "z"), age=60_000)
    assert left(shelf, edit) == {"z": "it is not ready yet"}


def test_a_group_with_erased_rows_is_rewritten_alone() -> None:
    """However big it is, and whatever lies beside it; a group without such rows is left alone."""
    shelf = Shelf()
    for name, size in (("a", 900_000), ("b", 5000), ("c", 5000)):
        shelf.add(name, size)
    plan = rewrite(shelf, {"a": 3, "b": 0}, max_group_bytes="20KB")
    assert shelf.merges(plan) == [{"a"}]
    (merge,) = plan.merges
    assert (merge.kind, merge.outputs, merge.reason) == ("rewrite", 9, "3 rows were erased")
    assert (plan.kind, plan.batches) == ("rewrite", ((0,),))


def test_a_group_with_retired_rows_is_rewritten() -> None:
    """A retired source that lies among others in a block is dropped for good; one that was left out before is not."""
    shelf = Shelf()
    shelf.add("f", of="abc")
    shelf.retire("b")
    assert [merge.reason for merge in rewrite(shelf, {}).merges] == ["1 of its sources were retired"]
    shelf.add("g", of="abc", edits=frozenset(edit.id for edit in shelf.edits), rewrite=1, age=HOUR)
    assert rewrite(shelf, {}).merges == ()


def test_a_group_that_spans_chunks_is_rewritten() -> None:
    """A replacement whose rows lie in no single chunk is rewritten in its own range."""
    shelf = Shelf()
    shelf.add("a", day=300, days=200)
    (merge,) = rewrite(shelf, {"a": 1}).merges
    assert (merge.chunk_start, merge.chunk_end) == (FIRST + 300 * DAY, FIRST + 500 * DAY)


@pytest.mark.parametrize("why", ["marked for deletion", "held", "marked no-compact"])
def test_what_may_not_be_rewritten_is_named(why: str) -> None:
    """A marked, held or no-compact block keeps its rows for now, and the plan says so."""
    shelf = Shelf()
    shelf.add("a")
    if why == "held":
        shelf.hold("a")
    elif why == "marked no-compact":
        shelf.change("a", folders.no_compact)
    else:
        shelf.mark("a")
    plan = rewrite(shelf, {"a": 4})
    assert plan.merges == ()
    assert shelf.skips(plan) == {"a": f"4 rows were erased; not now: {why}"}


def test_a_run_rewrites_as_much_as_it_may_and_one_group_at_least() -> None:
    """The smallest come first; a group that is bigger than a whole run may rewrite does not wait for ever."""
    shelf = Shelf()
    for name, size in (("a", 30_000), ("b", 10_000), ("c", 5_000)):
        shelf.add(name, size)
    every = {"a": 1, "b": 1, "c": 1}
    assert shelf.merges(rewrite(shelf, every, max_bytes_per_run="16KB")) == [{"c"}, {"b"}]
    assert shelf.merges(rewrite(shelf, {"a": 1}, max_bytes_per_run="16KB")) == [{"a"}]
    assert len(rewrite(shelf, every).batches) == 2
