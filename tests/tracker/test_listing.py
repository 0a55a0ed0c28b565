"""The listing tracker: what it sees of a stream, what it makes of damage, and what it asks of the bucket."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from tracked import NOW, Stream

from drystone import ulids
from drystone.block import edits, keys, sources
from drystone.block.edits import Expire
from drystone.block.guards import FOREVER, Hold, Pin
from drystone.block.journal import Attempt
from drystone.block.marks import DELETION_MARK, NO_COMPACT_MARK
from drystone.block.meta import META_FILE, SOURCES_FILE, Meta
from drystone.block.states import State, Times
from drystone.errors import BucketError, ObjectMissingError, UnreadableBlockError, UsageError
from drystone.plan.removal import plan_marks, plan_sweep
from drystone.testing.folders import CHUNK_FILE, STREAM, meta_of
from drystone.timeline.blocks import Block
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve, states
from drystone.tracker import ListingTracker

DAY = 86_400_000
LATER = NOW + DAY
TIMES = Times()


def observed(stream: Stream, now: int = LATER) -> tuple[Snapshot, Timeline, dict[str, State]]:
    """Return what is seen a day later."""
    snapshot = stream.tracker.observe(now)
    timeline = resolve(snapshot, TIMES)
    return snapshot, timeline, states(snapshot, timeline, TIMES)


def test_an_empty_stream(stream: Stream) -> None:
    """A stream without an object is an empty snapshot, taken at the time that was given."""
    assert stream.tracker.observe(NOW) == Snapshot(STREAM, NOW)


def test_a_whole_block(stream: Stream) -> None:
    """A block is seen with its files, its meta.json, its sources, and the times of its objects."""
    ulid = stream.block()
    snapshot, timeline, found = observed(stream)
    folder = snapshot.folders[ulid]
    assert folder.loadable
    assert folder.sources == {ulids.derive(0, "a")}
    assert folder.files[CHUNK_FILE].size == 4
    assert folder.files[META_FILE].modified == NOW
    assert found == {ulid: State.HEALTHY}
    assert list(timeline.visible) == [ulid]
    assert timeline.problems == timeline.damage == ()


def test_another_streams_blocks_are_not_seen(stream: Stream) -> None:
    """A stream whose name begins alike is another one."""
    ulid = stream.block()
    other = keys.block(f"{STREAM}2", ulid, META_FILE)
    stream.bucket.create(other, b"{}")
    assert list(observed(stream)[0].folders) == [ulid]
    assert list(ListingTracker(stream.bucket, f"{STREAM}2").observe(NOW).folders) == [ulid]


def test_a_name_that_is_no_streams(stream: Stream) -> None:
    """A tracker of what cannot be a stream is refused."""
    with pytest.raises(UsageError, match="cannot name a stream"):
        ListingTracker(stream.bucket, "../etc")


DAMAGES = {
    "cut-off JSON": lambda raw: raw[: len(raw) // 2],
    "nothing": lambda _: b"",
    "not JSON": lambda _: b"\x00\xff",
    "empty sources": lambda raw: raw.replace(ulids.derive(0, "bad").encode(), b"").replace(b'""', b""),
    "another version": lambda raw: raw.replace(b'"version": 1', b'"version": 9'),
    "another block's": lambda raw: raw.replace(ulids.derive(NOW, "bad").encode(), ulids.derive(NOW, "x").encode()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_meta_json_harms_no_other_block(stream: Stream, damage: str) -> None:
    """What cannot be read is one Malformed block with the reason, and damage; every other block is seen as before."""
    good, bad = stream.block("good"), stream.block("bad")
    key = keys.block(STREAM, bad, META_FILE)
    stream.bucket.put(key, DAMAGES[damage](stream.bucket.get(key)))
    snapshot, timeline, found = observed(stream)
    assert found == {good: State.HEALTHY, bad: State.MALFORMED}
    assert list(timeline.visible) == [good]
    assert snapshot.folders[bad].meta_error.startswith(f"block {bad}: meta.json")
    assert [(each.kind, each.name) for each in timeline.problems] == [("malformed", bad)]
    assert [each.name for each in timeline.damage] == [bad]


def test_an_unreadable_block_is_never_removed(stream: Stream) -> None:
    """Nobody can tell what is in it, so neither a mark nor time lets the remover have it."""
    bad = stream.block()
    stream.bucket.put(keys.block(STREAM, bad, META_FILE), b"{")
    for _ in range(2):
        snapshot, timeline, _ = observed(stream, NOW + 100 * DAY)
        assert plan_sweep(snapshot, timeline, TIMES, "p").deletes == ()
        assert plan_marks(snapshot, timeline, TIMES, "p").marks == ()
        stream.mark(bad)


def test_a_fresh_damaged_block_is_no_damage_yet(stream: Stream) -> None:
    """Before syncDelay is over, an unusable meta.json is reported, and stops no reader."""
    bad = stream.block()
    stream.bucket.put(keys.block(STREAM, bad, META_FILE), b"{")
    _, timeline, found = observed(stream, NOW)
    assert found == {bad: State.FRESH}
    assert [each.kind for each in timeline.problems] == ["malformed"]
    assert timeline.damage == ()


def test_folders_that_are_no_blocks(stream: Stream) -> None:
    """A ULID in lower case, a plain file, a folder of another name: strays, which are reported and left alone."""
    ulid = stream.block()
    small = ulid.lower()
    for name in (f"{small}/meta.json", f"{small}/chunks/1", "notes.txt", "backup/meta.json"):
        stream.bucket.create(f"{STREAM}/{name}", b"{}")
    snapshot, timeline, _ = observed(stream)
    assert list(snapshot.folders) == [ulid]
    assert set(snapshot.strays) == {f"{STREAM}/{name}" for name in (small, "notes.txt", "backup")}
    assert {each.kind for each in timeline.problems} == {"stray"}
    assert timeline.damage == ()


def test_a_partial_upload(stream: Stream) -> None:
    """Files without meta.json are Partial, and are deleted when nothing in them is young."""
    stream.bucket.create(keys.block(STREAM, ulids.derive(NOW, "p"), CHUNK_FILE), b"half")
    snapshot, timeline, found = observed(stream)
    assert list(found.values()) == [State.PARTIAL]
    assert [each.kind for each in plan_sweep(snapshot, timeline, TIMES, "p").deletes] == ["partial"]
    assert timeline.damage == ()


def test_a_mark_that_names_another_block(stream: Stream) -> None:
    """The folder's name decides whose mark it is; the mark is reported as foreign, and taken away."""
    one, other = stream.block("one"), stream.block("other")
    stream.mark(one, as_block=other)
    snapshot, timeline, found = observed(stream)
    assert found == {one: State.DELETABLE, other: State.HEALTHY}
    assert [each.kind for each in timeline.problems] == ["foreign-mark"]
    plan = plan_marks(snapshot, timeline, TIMES, "p")
    assert [each.ulid for each in plan.unmarks] == [one]
    assert plan_sweep(snapshot, timeline, TIMES, "p").deletes == ()


@pytest.mark.parametrize("raw", [b"", b"{", b'{"id": "x", "version": 2, "deletion_time": 1}'])
def test_a_mark_that_cannot_be_read(stream: Stream, raw: bytes) -> None:
    """Its block stays Marked and readable, is reported, and is neither deleted nor unmarked nor compacted."""
    ulid = stream.block()
    stream.bucket.put(keys.block(STREAM, ulid, DELETION_MARK), raw)
    snapshot, timeline, found = observed(stream)
    assert found == {ulid: State.MARKED}
    assert list(timeline.visible) == [ulid]
    assert [each.kind for each in timeline.problems] == ["unreadable-mark"]
    assert plan_marks(snapshot, timeline, TIMES, "p").actions == ()
    assert plan_sweep(snapshot, timeline, TIMES, "p").actions == ()


def big_block(stream: Stream, *, keep: bool = True) -> str:
    """Write a block whose sources are in a file of their own; return its ULID."""
    ulid = ulids.derive(NOW, "big")
    raw, named = sources.to_json([ulids.derive(0, str(number)) for number in range(3)])
    meta = meta_of(Block(ulid, 0, 1, frozenset({ulids.derive(0, "all")}), 0, ulid), 4)
    extension = {**meta.thanos.extensions["drystone"], "sources_file": named.model_dump()}
    thanos = meta.thanos.model_copy(update={"extensions": {"drystone": extension}})
    stream.bucket.create(keys.block(STREAM, ulid, CHUNK_FILE), b"rows")
    if keep:
        stream.bucket.create(keys.block(STREAM, ulid, SOURCES_FILE), raw)
    stream.bucket.create(keys.block(STREAM, ulid, META_FILE), Meta(**{**dict(meta), "thanos": thanos}).to_json())
    return ulid


def test_sources_in_a_file_of_their_own(stream: Stream) -> None:
    """A source set that is too big for meta.json is read from the file that meta.json names, once."""
    ulid = big_block(stream)
    assert observed(stream)[0].folders[ulid].sources == {ulids.derive(0, str(number)) for number in range(3)}
    assert stream.asked() == {f"{ulid}/{META_FILE}": 1, f"{ulid}/{SOURCES_FILE}": 1}
    observed(stream)
    assert stream.asked() == {}


def test_a_lost_file_of_sources_is_damage_and_no_partial_upload(stream: Stream) -> None:
    """Without the file that meta.json names, nobody knows what is in the block: damage, which no sweep takes away."""
    ulid = big_block(stream, keep=False)
    snapshot, timeline, found = observed(stream)
    assert found == {ulid: State.MALFORMED}
    assert "its file of sources, which meta.json names, is missing" in timeline.damage[0].text
    assert plan_sweep(snapshot, timeline, TIMES, "p").deletes == ()


def test_another_file_of_sources_is_damage(stream: Stream) -> None:
    """A file of sources with other content is not believed."""
    ulid = big_block(stream)
    stream.bucket.put(keys.block(STREAM, ulid, SOURCES_FILE), b"[]")
    assert "is not the one that meta.json names" in observed(stream)[0].folders[ulid].meta_error


class Vanishing:
    """Deletes objects between the listing and the GET of one of them."""

    def __init__(self, stream: Stream, key: str, *gone: str) -> None:
        """When `key` is read, the objects `gone` are not there any more."""
        self._real, self._key, self._gone = stream.bucket.inner.get, key, gone
        self._delete = stream.bucket.inner.delete

    def get(self, key: str) -> bytes:
        """Read an object, perhaps too late."""
        if key == self._key:
            self._delete(self._gone)
        return self._real(key)


@pytest.mark.parametrize("rest", [True, False])
def test_a_block_that_vanishes_while_we_look(stream: Stream, monkeypatch: pytest.MonkeyPatch, *, rest: bool) -> None:
    """A meta.json that is deleted after the listing was never seen; neither is a folder of which nothing is left."""
    ulid = stream.block()
    if not rest:
        stream.bucket.delete([keys.block(STREAM, ulid, CHUNK_FILE)])
    key = keys.block(STREAM, ulid, META_FILE)
    monkeypatch.setattr(stream.bucket, "get", Vanishing(stream, key, key).get)
    snapshot, timeline, found = observed(stream)
    assert found == ({ulid: State.PARTIAL} if rest else {})
    assert timeline.damage == ()
    assert not rest or META_FILE not in snapshot.folders[ulid].files


def test_a_big_block_that_vanishes_while_we_look(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deletion takes meta.json first: sources that are missing after it are no damage."""
    ulid = big_block(stream)
    meta, listed = keys.block(STREAM, ulid, META_FILE), keys.block(STREAM, ulid, SOURCES_FILE)
    monkeypatch.setattr(stream.bucket, "get", Vanishing(stream, listed, meta, listed).get)
    assert observed(stream)[1].damage == ()


def test_a_mark_that_vanishes_while_we_look(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mark that was taken away after the listing is none."""
    ulid = stream.block()
    stream.mark(ulid)
    key = keys.block(STREAM, ulid, DELETION_MARK)
    monkeypatch.setattr(stream.bucket, "get", Vanishing(stream, key, key).get)
    assert observed(stream)[2] == {ulid: State.HEALTHY}


def test_what_was_read_before_is_not_read_again(stream: Stream) -> None:
    """Each meta.json, mark, edit and attempt costs one GET, however often the stream is observed."""
    one, two = stream.block("one"), stream.block("two")
    stream.mark(one)
    edit = Expire(id=ulids.derive(NOW, "edit"), reason="", author="", time=NOW, before=0)
    stream.bucket.create(keys.edit(STREAM, edit.id), edit.to_json())
    attempt = f"{keys.journal(STREAM)}{ulids.derive(NOW, 'attempt')}.json"
    stream.bucket.create(attempt, Attempt(run="r", time=NOW).to_json())
    first = observed(stream)[0]
    names = [f"{one}/{META_FILE}", f"{one}/{DELETION_MARK}", f"{two}/{META_FILE}"]
    names += [f".edits/{edit.id}.json", attempt.removeprefix(f"{STREAM}/")]
    assert stream.asked() == Counter(names)
    stream.bucket.lists.clear()
    assert observed(stream)[0] == first
    assert stream.asked() == {}
    assert len(stream.bucket.lists) == 5


def test_only_what_is_new_is_read(stream: Stream) -> None:
    """A new block, a new mark and a mark that was set again are read; what is gone is forgotten."""
    one, two = stream.block("one"), stream.block("two")
    observed(stream)
    stream.asked()
    stream.clock.advance(1000)
    three = stream.block("three")
    stream.mark(one)
    observed(stream)
    assert stream.asked() == {f"{three}/{META_FILE}": 1, f"{one}/{DELETION_MARK}": 1}
    stream.clock.advance(1000)
    stream.mark(one)
    stream.bucket.delete([keys.block(STREAM, two, META_FILE), keys.block(STREAM, two, CHUNK_FILE)])
    snapshot, _, _ = observed(stream)
    assert stream.asked() == {f"{one}/{DELETION_MARK}": 1}
    assert set(snapshot.folders) == {one, three}
    mark = snapshot.folders[one].mark
    assert mark is not None
    assert mark.deletion_time == NOW // 1000 + 2


def test_the_listing_passes_over_what_begins_with_a_dot(stream: Stream) -> None:
    """Plans, reports and audit logs, however many, are not listed with the blocks."""
    ulid = stream.block()
    for number in range(3):
        stream.bucket.create(f"{keys.plans(STREAM)}{number}.json", b"{}")
    snapshot, timeline, _ = observed(stream)
    assert list(snapshot.folders) == [ulid]
    assert timeline.problems == ()
    assert all(key.startswith(ulid) for key in stream.asked())


def test_edits_are_part_of_the_snapshot(stream: Stream) -> None:
    """Every edit is there, as it was written."""
    edit = Expire(id=ulids.derive(NOW, "edit"), reason="old", author="ann", time=NOW, before=5)
    stream.bucket.create(keys.edit(STREAM, edit.id), edit.to_json())
    assert observed(stream)[0].edits == (edit,)


def test_an_edit_that_cannot_be_read_stops_everybody(stream: Stream) -> None:
    """It may take rows away: so nobody reads or plans until it is put right, and then at once."""
    name = ulids.derive(NOW, "edit")
    stream.bucket.create(keys.edit(STREAM, name), b"{")
    for _ in range(2):
        with pytest.raises(UnreadableBlockError, match=f"edit {keys.edit(STREAM, name)} cannot be read"):
            stream.tracker.observe(NOW)
    edit = Expire(id=name, reason="", author="", time=NOW, before=5)
    stream.bucket.put(keys.edit(STREAM, name), edit.to_json())
    assert stream.tracker.observe(NOW).edits == (edit,)


def test_an_edit_that_is_listed_and_not_there_is_tried_again(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits are never deleted: one that cannot be fetched is a failure of the store."""
    key = keys.edit(STREAM, ulids.derive(NOW, "edit"))
    stream.bucket.create(key, b"{}")
    monkeypatch.setattr(stream.bucket, "get", Vanishing(stream, key, key).get)
    with pytest.raises(BucketError) as caught:
        stream.tracker.observe(NOW)
    assert caught.value.retryable
    assert isinstance(caught.value, ObjectMissingError)


def test_pins_and_holds(stream: Stream) -> None:
    """Pins and holds are read as they are now, each time."""
    pin, hold = Pin(owner="r", created=1, expires=2), Hold(owner="ann", created=1, expires=2, blocks=("x",))
    stream.bucket.create(f"{keys.pins(STREAM)}p.json", pin.to_json())
    stream.bucket.create(f"{keys.holds(STREAM)}h.json", hold.to_json())
    snapshot = stream.tracker.observe(NOW)
    assert (snapshot.pins, snapshot.holds) == ((pin,), (hold,))
    renewed = pin.model_copy(update={"expires": 9})
    stream.bucket.put(f"{keys.pins(STREAM)}p.json", renewed.to_json())
    assert stream.tracker.observe(NOW).pins == (renewed,)


@pytest.mark.parametrize("prefix", [keys.pins(STREAM), keys.holds(STREAM)])
@pytest.mark.parametrize("raw", [b"", b"{}", b'{"version": 2, "owner": "x", "created": 0, "expires": 0}'])
def test_an_unreadable_guard_keeps_removers_off_and_readers_on(stream: Stream, prefix: str, raw: bytes) -> None:
    """Nobody knows what it asks for: so nothing is deleted until a person has looked, and reads go on."""
    ulid = stream.block()
    stream.bucket.create(f"{prefix}odd.json", raw)
    stream.bucket.create(keys.block(STREAM, ulids.derive(NOW, "p"), CHUNK_FILE), b"half")
    snapshot, timeline, _ = observed(stream, NOW + 100 * DAY)
    assert list(timeline.visible) == [ulid]
    assert timeline.damage == ()
    assert [each.name for each in timeline.problems] == [f"{prefix}odd.json"]
    assert (*snapshot.pins, *snapshot.holds)[0].expires == FOREVER
    plan = plan_sweep(snapshot, timeline, TIMES, "p")
    assert plan.deletes == ()
    assert len(plan.skipped) == 1


def test_an_unreadable_attempt_stops_nobody(stream: Stream) -> None:
    """The journal spares work: an entry that cannot be read is reported, and everything goes on without it."""
    ulid = stream.block()
    key = f"{keys.journal(STREAM)}{ulids.derive(NOW, 'attempt')}.json"
    stream.bucket.create(key, b'{"run": "r"')
    snapshot, timeline, _ = observed(stream)
    assert snapshot.journal == ()
    assert list(timeline.visible) == [ulid]
    assert [(each.kind, each.name) for each in timeline.problems] == [("unreadable", key)]


def test_old_attempts_are_not_read(stream: Stream) -> None:
    """Attempts of long ago say nothing about the next one, and cost nothing."""
    for moment in (NOW - 30 * DAY, NOW):
        attempt = Attempt(run="r", time=moment)
        stream.bucket.create(f"{keys.journal(STREAM)}{ulids.derive(moment, 'a')}.json", attempt.to_json())
    assert [attempt.time for attempt in stream.tracker.observe(NOW).journal] == [NOW]
    assert len(stream.asked()) == 1


def test_a_no_compact_mark(stream: Stream) -> None:
    """A no-compact mark is seen by its name alone."""
    ulid = stream.block()
    stream.bucket.create(keys.block(STREAM, ulid, NO_COMPACT_MARK), b"whatever")
    folder = observed(stream)[0].folders[ulid]
    assert folder.no_compact
    assert folder.stray_files() == ()


def test_a_failing_store_is_an_error(stream: Stream, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that fails is never taken for an empty one, nor a block that cannot be fetched for a missing one."""
    stream.block()

    def fail(*_: object) -> bytes:
        raise BucketError("the store is on fire.")

    monkeypatch.setattr(stream.bucket, "get", fail)
    with pytest.raises(BucketError, match="on fire"):
        stream.tracker.observe(NOW)


def test_a_stream_of_many_blocks(stream: Stream) -> None:
    """All blocks are seen, and each is read once, several at a time."""
    made = {stream.block(str(number)) for number in range(60)}
    snapshot = stream.tracker.observe(LATER)
    assert set(snapshot.folders) == made
    assert all(folder.loadable for folder in snapshot.folders.values())
    assert set(stream.asked().values()) == {1}


def test_edits_of_one_kind_are_told_from_another(stream: Stream) -> None:
    """What is kept of an edit is kept for its own key only."""
    first = Expire(id=ulids.derive(NOW, "1"), reason="", author="", time=NOW, before=1)
    second = replace_edit(first, ulids.derive(NOW, "2"), 2)
    for edit in (first, second):
        stream.bucket.create(keys.edit(STREAM, edit.id), edit.to_json())
    for _ in range(2):
        assert set(stream.tracker.observe(NOW).edits) == {first, second}


def replace_edit(edit: Expire, name: str, before: int) -> edits.Edit:
    """Return another expire edit."""
    return edit.model_copy(update={"id": name, "before": before})


def test_folders_are_told_from_each_other(stream: Stream) -> None:
    """Two observers of one bucket see the same, whatever each has kept."""
    one = stream.block("one")
    observed(stream)
    stream.clock.advance(1)
    stream.block("two")
    kept, new = stream.tracker.observe(NOW), ListingTracker(stream.bucket, STREAM).observe(NOW)
    assert kept == new
    assert replace(kept.folders[one], ulid="x") != kept.folders[one]
