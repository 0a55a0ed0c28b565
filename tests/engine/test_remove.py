"""The remover looks again right before each act: whatever speaks against it then keeps the block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
from buckets import Call, Spy, failing, objects

from drystone import ulids
from drystone.block import keys
from drystone.block.folder import Folder
from drystone.block.guards import Hold, Pin
from drystone.block.marks import DELETION_MARK, NO_COMPACT_MARK, DeletionMark
from drystone.block.meta import META_FILE, File
from drystone.block.states import State, Times, state
from drystone.bucket import Bucket, MemoryBucket
from drystone.engine import audit, remove, remover
from drystone.engine.audit import Entry
from drystone.engine.lease import remover_lease
from drystone.engine.remover import Acted, Remover, spare_once_whole
from drystone.engine.second_look import HOLDS_MS, SecondLook
from drystone.errors import BucketError
from drystone.plan.model import Delete, Mark, Plan, Unmark
from drystone.plan.removal import plan_sweep
from drystone.testing import folders
from drystone.testing.streams import ManualClock
from drystone.timeline.blocks import Block
from drystone.timeline.timeline import resolve
from drystone.tracker import ListingTracker

STREAM = "events"
HOUR = 3_600_000
DELAY = 15 * 60_000
START = 1_700_000_000_000
FILES = ("chunks/000001.parquet", "chunks/000002.parquet", "index", META_FILE)


@dataclass
class World:
    """A stream of two blocks: `old`, which was marked an hour ago, and `new`, which supersedes it."""

    bucket: MemoryBucket
    clock: ManualClock
    old: str
    new: str

    def key(self, ulid: str, name: str) -> str:
        """Return the key of a file of a block."""
        return keys.block(STREAM, ulid, name)

    def write(self, ulid: str, *names: str) -> None:
        """Write files of a block; each holds its name, meta.json lists all that it needs."""
        for name in names:
            self.bucket.put(self.key(ulid, name), meta_of(ulid) if name == META_FILE else name.encode())

    def look(self, bucket: Bucket | None = None) -> SecondLook:
        """Return the eyes of a remover who has seen nothing yet."""
        return SecondLook(bucket or self.bucket, STREAM, self.clock)

    def mark(self, ulid: str) -> None:
        """Mark a block, now."""
        note = DeletionMark(id=ulid, deletion_time=self.clock.now // 1000)
        self.bucket.put(self.key(ulid, DELETION_MARK), note.to_json())

    def names(self, ulid: str) -> set[str]:
        """Return the names of a block's files."""
        prefix = self.key(ulid, "")
        return {key.removeprefix(prefix) for key in objects(self.bucket, prefix)}

    def delete(self, kind: str = "marked", bucket: Bucket | None = None) -> str:
        """Delete `old`, as a plan wants it."""
        action = Delete.model_validate(
            {"ulid": self.old, "kind": kind, "bytes": 1, "reason": "covered", "needs": (self.new,)}
        )
        return remove.delete(self.look(bucket), action, DELAY)

    def sweep_plan(self, **changes: object) -> Plan:
        """Return what a sweep would plan, less what only a timeline can say."""
        snapshot = ListingTracker(self.bucket, STREAM).observe(self.clock.now)
        times = Times(**changes)  # type: ignore[arg-type]
        return plan_sweep(snapshot, resolve(snapshot, times), times, ulids.new(self.clock.now))


def meta_of(ulid: str) -> bytes:
    """Return the meta.json of a block of these files."""
    meta = folders.meta_of(Block(ulid, 0, HOUR, frozenset({ulid}), START, ulid))
    files = tuple(File(rel_path=name, size_bytes=len(name)) for name in FILES if name != META_FILE)
    return meta.model_copy(update={"thanos": meta.thanos.model_copy(update={"files": files})}).to_json()


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """The two blocks."""
    clock = ManualClock(START)
    world = World(MemoryBucket(request.node.name, clock), clock, ulids.new(START), ulids.new(START + 1))
    world.write(world.old, *FILES)
    world.write(world.new, *FILES)
    world.mark(world.old)
    clock.advance(HOUR)
    return world


def test_a_block_is_deleted_meta_json_first_and_the_mark_last(world: World) -> None:
    """The order makes whatever half of a deletion leaves look like one."""
    world.write(world.old, NO_COMPACT_MARK, "stray")
    spy = Spy(world.bucket)
    assert world.delete(bucket=spy) == ""
    names = [key.removeprefix(world.key(world.old, "")) for key in spy.of("delete")]
    assert names[0] == META_FILE
    assert names[-1] == DELETION_MARK
    assert set(names) == {*FILES, NO_COMPACT_MARK, "stray", DELETION_MARK}
    assert world.names(world.old) == set()
    assert world.names(world.new) == set(FILES)


@pytest.mark.parametrize("step", range(len(FILES) + 1))
def test_the_next_sweep_finishes_what_a_kill_left(world: World, step: int) -> None:
    """After a kill before any of the deletes, the block is whole and marked, or its deletion is seen and finished."""
    with pytest.raises(BucketError):
        world.delete(bucket=Spy(world.bucket, failing(step, {"delete"})))
    folder = ListingTracker(world.bucket, STREAM).observe(world.clock.now).folders[world.old]
    if step == 0:
        assert world.names(world.old) == {*FILES, DELETION_MARK}
        assert world.delete() == ""
    else:
        assert state(folder, world.clock.now, Times()) == State.DELETING
        plan = world.sweep_plan()
        (action,) = plan.deletes
        assert (action.ulid, action.kind) == (world.old, "unfinished")
        assert remove.delete(world.look(), action, DELAY) == ""
    assert world.names(world.old) == set()


def _needed_gone(world: World) -> None:
    world.bucket.delete([world.key(world.new, META_FILE)])


def _needed_incomplete(world: World) -> None:
    world.bucket.delete([world.key(world.new, "chunks/000002.parquet")])


def _needed_cut_off(world: World) -> None:
    world.bucket.put(world.key(world.new, "index"), b"ind")


def _needed_unreadable(world: World) -> None:
    world.bucket.put(world.key(world.new, META_FILE), b'{"version": 1')


def _needed_marked(world: World) -> None:
    world.mark(world.new)


def _mark_gone(world: World) -> None:
    world.bucket.delete([world.key(world.old, DELETION_MARK)])


def _mark_unreadable(world: World) -> None:
    world.bucket.put(world.key(world.old, DELETION_MARK), b'{"id": ')


def _held(world: World) -> None:
    hold = Hold(owner="ann", reason="repair", created=0, expires=world.clock.now + 1, blocks=(world.old,))
    world.bucket.put(f"{keys.holds(STREAM)}a.json", hold.to_json())


def _all_held(world: World) -> None:
    hold = Hold(owner="ann", reason="repair", created=0, expires=world.clock.now + 1)
    world.bucket.put(f"{keys.holds(STREAM)}a.json", hold.to_json())


def _hold_unreadable(world: World) -> None:
    world.bucket.put(f"{keys.holds(STREAM)}a.json", b"{}")


def _pinned(world: World) -> None:
    pin = Pin(owner="read", created=0, expires=world.clock.now + 1)
    world.bucket.put(f"{keys.pins(STREAM)}a.json", pin.to_json())


def _pin_unreadable(world: World) -> None:
    world.bucket.put(f"{keys.pins(STREAM)}a.json", b"\xff")


GUARDS = [
    (_needed_gone, "which supersedes it, is gone"),
    (_needed_incomplete, "which supersedes it, is damaged: chunks/000002.parquet is missing"),
    (_needed_cut_off, "which supersedes it, is damaged: index has 3 bytes, not 5"),
    (_needed_unreadable, "which supersedes it, cannot be read"),
    (_needed_marked, "which supersedes it, is marked"),
    (_mark_gone, "not marked any more"),
    (lambda world: world.mark(world.old), "marked again"),
    (_mark_unreadable, "cannot be read"),
    (_held, "held by ann: repair"),
    (_all_held, "held by ann: repair"),
    (_hold_unreadable, "held by unknown"),
    (_pinned, "pinned"),
    (_pin_unreadable, "pinned"),
]


@pytest.mark.parametrize(("happen", "refusal"), GUARDS, ids=[refusal for _, refusal in GUARDS])
def test_what_came_up_since_the_plan_keeps_the_block(
    world: World, happen: Callable[[World], None], refusal: str
) -> None:
    """Each guard is read again right before the delete: the block is left whole, with the reason."""
    happen(world)
    before = world.names(world.old)
    assert refusal in world.delete()
    assert world.names(world.old) == before


def batch(world: World, size: int) -> list[Delete]:
    """Return the deletions of so many marked blocks that `new` supersedes."""
    found = []
    for number in range(size):
        ulid = ulids.new(START + number)
        world.write(ulid, *FILES)
        world.mark(ulid)
        found.append(Delete(ulid=ulid, kind="marked", bytes=1, reason="covered", needs=(world.new,)))
    world.clock.advance(HOUR)
    return found


def test_what_supersedes_many_is_looked_at_once(world: World) -> None:
    """A batch costs one listing and one GET for each block that it rests on, and four requests for each that goes."""
    actions = batch(world, 20)
    spy = Spy(world.bucket)
    look = world.look(spy)
    assert {remove.delete(look, action, DELAY) for action in actions} == {""}
    looks = [call for call in spy.calls if call.key.startswith(world.key(world.new, ""))]
    assert [(call.verb, call.key) for call in looks] == [
        ("list", world.key(world.new, "")),
        ("get", world.key(world.new, META_FILE)),
    ]
    others = [call.verb for call in spy.calls if call not in looks and call.verb != "delete"]
    assert sorted(others) == ["get"] * 20 + ["list"] * 60, "its mark; holds, pins, and its own folder"


def test_a_look_does_not_hold_for_ever(world: World) -> None:
    """What was whole when a long batch began is looked at again, so that damage meanwhile keeps the rest."""
    first, second, third = batch(world, 3)
    look = world.look()
    assert remove.delete(look, first, DELAY) == ""
    _needed_incomplete(world)
    world.clock.advance(HOLDS_MS - 1)
    assert remove.delete(look, second, DELAY) == ""
    world.clock.advance(1)
    assert "is damaged" in remove.delete(look, third, DELAY)


def test_who_sleeps_over_a_look_deletes_nothing(world: World) -> None:
    """A process that stood still between its second look and the delete leaves the block to the next sweep."""

    def sleep(call: Call) -> None:
        if call == Call("list", world.key(world.old, "")):
            world.clock.advance(2 * HOLDS_MS + 1)

    assert "took too long" in world.delete(bucket=Spy(world.bucket, sleep))
    assert world.names(world.old) == {*FILES, DELETION_MARK}


def test_guards_that_are_over_keep_nothing(world: World) -> None:
    """An expired pin, an expired hold, and a hold on another block do not stop a sweep."""
    now = world.clock.now
    world.bucket.put(f"{keys.pins(STREAM)}a.json", Pin(owner="read", created=0, expires=now).to_json())
    world.bucket.put(f"{keys.holds(STREAM)}a.json", Hold(owner="ann", created=0, expires=now).to_json())
    other = Hold(owner="ann", created=0, expires=now + HOUR, blocks=(world.new,))
    world.bucket.put(f"{keys.holds(STREAM)}b.json", other.to_json())
    assert world.delete() == ""


def test_a_pin_that_ends_meanwhile_stops_nothing(world: World) -> None:
    """A pin that is listed, and gone when it is read, is no failure of the sweep."""
    _pinned(world)

    def unpin(call: Call) -> None:
        if call.verb == "get" and call.key.startswith(keys.pins(STREAM)):
            world.bucket.delete([call.key])

    assert world.delete(bucket=Spy(world.bucket, unpin)) == ""


def test_a_mark_counts_from_when_it_was_written(world: World) -> None:
    """A block goes when deleteDelay has passed since the mark, and no millisecond sooner."""
    world.mark(world.old)
    world.clock.advance(DELAY - 1)
    assert world.delete() == "it was marked again"
    world.clock.advance(1)
    assert world.delete() == ""


@pytest.mark.parametrize("kind", ["partial", "unfinished"])
def test_what_is_whole_now_is_kept(world: World, kind: str) -> None:
    """A folder that was seen without meta.json, and has one now, is no longer what the plan says."""
    assert world.delete(kind) == "it is whole now"
    assert world.names(world.old) == {*FILES, DELETION_MARK}


def test_an_upload_that_goes_on_is_kept(world: World) -> None:
    """A partial folder into which somebody has written since the plan is kept; an idle one goes."""
    world.bucket.delete([world.key(world.old, META_FILE), world.key(world.old, DELETION_MARK)])
    world.write(world.old, "chunks/000003.parquet")
    assert world.delete("partial") == "somebody is writing to it"
    world.clock.advance(DELAY)
    assert world.delete("partial") == ""
    assert world.names(world.old) == set()


def test_a_pin_does_not_keep_half_a_deletion(world: World) -> None:
    """What has lost its meta.json is no longer read by anybody: its deletion is finished, whoever reads."""
    _pinned(world)
    world.bucket.delete([world.key(world.old, META_FILE)])
    assert world.delete("unfinished") == ""


def marking(world: World) -> str:
    """Mark `old`, as a plan wants it."""
    action = Mark(ulid=world.old, reason="covered", needs=(world.new,))
    return remove.mark(world.look(), action)


def test_a_mark_is_written_once(world: World) -> None:
    """Marking twice leaves the first mark, and its time, which is never before the moment that it was written."""
    _mark_gone(world)
    world.clock.now = START + 1
    assert marking(world) == ""
    first = world.bucket.get(world.key(world.old, DELETION_MARK))
    assert DeletionMark.model_validate_json(first).deletion_time * 1000 == START + 1000
    world.clock.advance(HOUR)
    assert marking(world) == ""
    assert world.bucket.get(world.key(world.old, DELETION_MARK)) == first


@pytest.mark.parametrize(
    ("happen", "refusal"),
    [
        (_needed_gone, "is gone"),
        (_needed_marked, "is marked"),
        (lambda world: world.bucket.delete([world.key(world.old, META_FILE)]), "its meta.json is gone"),
    ],
    ids=["needs gone", "needs marked", "gone"],
)
def test_a_mark_needs_what_supersedes_the_block(world: World, happen: Callable[[World], None], refusal: str) -> None:
    """No mark is written if what supersedes the block has gone or is marked, or if the block itself has gone."""
    _mark_gone(world)
    happen(world)
    assert refusal in marking(world)
    assert DELETION_MARK not in world.names(world.old)


def test_a_mark_is_taken_away(world: World) -> None:
    """Unmarking removes the mark alone, and doing it again is harmless; a deletion that has begun goes on."""
    action = Unmark(ulid=world.old, reason="nothing supersedes it")
    assert remove.unmark(world.bucket, STREAM, action) == ""
    assert world.names(world.old) == set(FILES)
    assert remove.unmark(world.bucket, STREAM, action) == ""
    world.mark(world.old)
    world.bucket.delete([world.key(world.old, META_FILE)])
    assert remove.unmark(world.bucket, STREAM, action) == "its deletion has begun"
    assert DELETION_MARK in world.names(world.old)


def sweep_of(world: World, *ulids_: str, expires: int) -> Plan:
    """Return a plan to delete these blocks."""
    deletes = [Delete(ulid=ulid, kind="marked", bytes=1, reason="covered") for ulid in ulids_]
    fields = {"id": ulids.new(START), "stream": STREAM, "kind": "sweep", "created": START, "expires": expires}
    return Plan.model_validate({**fields, "deletes": tuple(deletes)})


def test_nobody_acts_on_an_expired_plan(world: World) -> None:
    """A remover that slept past plan_ttl deletes nothing: what it planned to delete may be the only copy by now."""
    plan = sweep_of(world, world.old, expires=world.clock.now)
    with remover_lease(world.bucket, STREAM, "run", HOUR, world.clock) as lease:
        acted = Remover(world.look(), lease, plan, DELAY).act(plan.deletes[0])
    assert "expired" in acted.error
    assert not acted.done
    assert world.names(world.old) == {*FILES, DELETION_MARK}


def test_nobody_acts_without_the_lease(world: World) -> None:
    """A remover whose lease has run out, or was taken over, deletes nothing more."""
    plan = sweep_of(world, world.old, expires=START + 10 * HOUR)
    with remover_lease(world.bucket, STREAM, "run", HOUR, world.clock) as lease:
        actor = Remover(world.look(), lease, plan, DELAY)
        with remover_lease(world.bucket, STREAM, "run", HOUR, world.clock):
            assert "no longer holds" in actor.act(plan.deletes[0]).error
    with remover_lease(world.bucket, STREAM, "run", HOUR, world.clock) as lease:
        actor = Remover(world.look(), lease, plan, DELAY)
        world.clock.advance(HOUR)
        assert "no longer holds" in actor.act(plan.deletes[0]).error
    assert world.names(world.old) == {*FILES, DELETION_MARK}


def test_one_failure_leaves_the_others_to_be_done(world: World) -> None:
    """A block at which the store fails is reported; the other blocks are deleted."""
    world.mark(world.new)
    world.clock.advance(HOUR)
    plan = sweep_of(world, world.old, world.new, expires=START + 10 * HOUR)
    with remover_lease(world.bucket, STREAM, "run", HOUR, world.clock) as lease:
        spy = Spy(world.bucket, failing(0, {"delete"}))
        actor = Remover(world.look(spy), lease, plan, DELAY)
        first, second = map(actor.act, plan.deletes)
    assert "the store failed" in first.error
    assert second == Acted(world.new)
    assert second.done
    assert world.names(world.new) == set()


def test_a_block_that_was_whole_once_is_not_swept_as_partial(world: World) -> None:
    """The audit log knows a block that has lost its meta.json: that is damage, and no upload that never finished."""
    world.bucket.delete(
        [world.key(ulid, name) for ulid in (world.old, world.new) for name in (META_FILE, DELETION_MARK)]
    )
    world.clock.advance(HOUR)
    plan = world.sweep_plan()
    assert {(delete.ulid, delete.kind) for delete in plan.deletes} == {(world.old, "partial"), (world.new, "partial")}
    audit.append(world.bucket, STREAM, [Entry("upload", world.old, "source X", "run", START)], START)
    spared = spare_once_whole(world.bucket, plan)
    assert [delete.ulid for delete in spared.deletes] == [world.new]
    assert [(skip.name, "damage" in skip.reason) for skip in spared.skipped] == [(world.old, True)]


def test_the_log_is_not_read_for_nothing(world: World) -> None:
    """A sweep without partial folders does not read the audit log."""
    spy = Spy(world.bucket)
    assert spare_once_whole(spy, sweep_of(world, world.old, expires=START)).deletes
    assert spy.calls == []


@pytest.mark.parametrize(
    ("guard", "harmless"),
    [("_unmet", lambda *_: ""), ("_guarded", lambda *_: ""), ("_not_due", lambda *_: "")],
    ids=["needs", "holds and pins", "mark"],
)
def test_a_missing_guard_would_be_found(
    world: World, monkeypatch: pytest.MonkeyPatch, guard: str, harmless: Callable[..., str]
) -> None:
    """With any one of the guards taken out, a block would go that the tests above keep."""
    monkeypatch.setattr(remove, guard, harmless)
    happened = {"_unmet": _needed_gone, "_guarded": _pinned, "_not_due": lambda world: world.mark(world.old)}
    happened[guard](world)
    assert world.delete() == ""
    assert world.names(world.old) == set()


def test_not_to_look_at_the_files_would_be_found(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If only meta.json and the mark of what supersedes a block counted, the block would go beside a damaged one."""
    monkeypatch.setattr(Folder, "missing_files", lambda _: ())
    _needed_incomplete(world)
    assert world.delete() == ""


def test_a_folder_is_judged_by_all_its_objects() -> None:
    """Deletion sorts names by what half a deletion must still show: meta.json, data, other marks, the deletion mark."""
    names = [DELETION_MARK, "index", NO_COMPACT_MARK, META_FILE, "chunks/1"]
    assert remove.deletion_order(names) == [META_FILE, "chunks/1", "index", NO_COMPACT_MARK, DELETION_MARK]
    assert Folder("x").last_activity == 0
    assert remover.Acted("x").done
