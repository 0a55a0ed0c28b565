"""What is replaced leaves the stream for good, and whatever tells that it is replaced stays until then."""

from __future__ import annotations

from shelf import DAY, FIRST, HOUR, NOW, TIMES, Shelf

from drystone import ulids
from drystone.plan.model import Plan
from drystone.plan.repair import Sight, Wish, plan_reupload

FILE = ("/in/a.csv", "0" * 64, 100)


def test_a_group_learns_what_only_an_expired_block_tells() -> None:
    """An expired replacement stays while others hold its root's rows: those are rewritten, and then it goes."""
    shelf = Shelf()
    shelf.add("f", of="ab", days=2, age=9 * DAY)
    shelf.add("c", retires=shelf.pair("a", "c"), age=8 * DAY)
    assert shelf.minor().merges == ()
    shelf.expire(1)
    assert shelf.names(mark.ulid for mark in shelf.marks().marks) == set()
    (merge,) = shelf.minor().merges
    assert (merge.kind, shelf.names(merge.groups)) == ("rewrite", {"f"})
    shelf.add("g", of="ab", days=2, rewrite=1, retires=shelf.pair("a", "c"))
    shelf.now += TIMES.sync_delay
    assert shelf.minor().merges == ()
    assert shelf.names(mark.ulid for mark in shelf.marks().marks) == {"f", "c"}


def test_what_alone_tells_that_rows_are_expired_outlives_who_names_them() -> None:
    """A broken block whose rows are expired goes after the crashed compaction that took it in, not before."""
    shelf = Shelf()
    shelf.add("a", loadable=False, age=9 * DAY)
    shelf.add("b", day=1, age=9 * DAY)
    shelf.add("f", of="ab", days=2, members=2, there=[0], age=8 * DAY, level=2)
    shelf.expire(1)
    assert shelf.names(mark.ulid for mark in shelf.marks().marks) == set(shelf.names(shelf.blocks("f")))
    del shelf.folders[shelf.blocks("f")[0]]
    assert shelf.names(mark.ulid for mark in shelf.marks().marks) == {"a"}


def test_an_expired_root_outlives_half_its_replacement() -> None:
    """A repair that died between two blocks is no damage when the root has expired: its block goes after the half."""
    shelf = Shelf()
    shelf.add("a", age=9 * DAY)
    shelf.add("c", members=2, there=[0], retires=shelf.pair("a", "c"), age=8 * DAY)
    shelf.expire(1)
    assert shelf.timeline().damage == ()
    assert shelf.names(mark.ulid for mark in shelf.marks().marks) == set(shelf.names(shelf.blocks("c")))
    del shelf.folders[shelf.blocks("c")[0]]
    assert shelf.names(mark.ulid for mark in shelf.marks().marks) == {"a"}


def test_half_a_replacement_that_was_replaced_itself_goes_before_what_has_expired() -> None:
    """The other half is in a block that has expired, and so has, and is deleted, what replaced both."""
    shelf = Shelf()
    shelf.add("c", members=2, there=[0], retires=shelf.pair("a", "c"), age=9 * DAY)
    told = (*shelf.pair("a", "c"), *shelf.pair("a", "d"))
    shelf.add("g", of="abc", days=2, level=2, retires=told, age=8 * DAY)
    shelf.expire(2)
    assert shelf.names(mark.ulid for mark in shelf.marks().marks) == set(shelf.names(shelf.blocks("c")))
    del shelf.folders[shelf.blocks("c")[0]]
    assert shelf.names(mark.ulid for mark in shelf.marks().marks) == {"g"}


def test_half_a_deletion_of_an_expired_upload_goes_on() -> None:
    """A remover that died between the blocks of a group leaves no damage, and the next one deletes what is left."""
    shelf = Shelf()
    shelf.add("a", members=2, age=HOUR)
    shelf.expire(1)
    marked = shelf.marks().marks
    assert {mark.reason for mark in marked} == {"expired"}
    shelf.mark("a", details=marked[0].reason)
    shelf.now += HOUR
    del shelf.folders[marked[0].ulid]
    assert shelf.timeline().damage == ()
    assert shelf.marks().unmarks == ()
    assert [delete.ulid for delete in shelf.sweep().deletes] == [marked[1].ulid]


def reupload(shelf: Shelf, root: str, uploaded: frozenset[str] = frozenset()) -> Plan:
    """Plan to upload a file in place of a source."""
    sight = Sight(shelf.snapshot(), shelf.timeline(), shelf.times)
    return plan_reupload(sight, Wish(ulids.new(NOW)), root, FILE, uploaded)


def test_a_source_that_nobody_knows_is_not_replaced() -> None:
    """Of a source that no block tells of nobody knows what is read in its place, unless it was a file's own."""
    shelf = Shelf()
    shelf.add("a", age=9 * DAY)
    lost = shelf.source("b")
    plan = reupload(shelf, lost)
    assert plan.reuploads == ()
    assert "no block tells of this source any more" in plan.skipped[0].reason
    assert len(reupload(shelf, lost, frozenset({lost})).reuploads) == 1
    assert len(reupload(shelf, shelf.source("a")).reuploads) == 1


def test_a_replacement_of_a_replacement_that_is_not_ready_tells_of_both() -> None:
    """What the pending one replaces is replaced by the new one as well, whatever becomes of the pending one."""
    shelf = Shelf()
    shelf.add("a", age=9 * DAY)
    shelf.add("c", retires=shelf.pair("a", "c"), age=1)
    (action,) = reupload(shelf, shelf.source("c")).reuploads
    pairs = {(pair.root, pair.by) for pair in action.retires}
    assert pairs == {(shelf.source("a"), shelf.source("c")), (shelf.source("c"), action.by)}
    assert ulids.time_of(action.by) > FIRST
