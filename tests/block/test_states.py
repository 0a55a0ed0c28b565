"""The state of one block at one moment: every age just below, at and above each delay, and every transition."""

from __future__ import annotations

from dataclasses import replace

import pytest

from drystone import ulids
from drystone.block.folder import FileFacts, Folder
from drystone.block.marks import DELETION_MARK
from drystone.block.meta import META_FILE, File
from drystone.block.states import State, Times, is_fresh, is_from_future, state
from drystone.testing.folders import CHUNK_FILE, folder_of, marked, no_compact, without_meta
from drystone.timeline.blocks import Block

TIMES = Times(sync_delay=60_000, delete_delay=120_000, clock_skew=5_000)
NOW = 1_700_000_000_000


def folder(began: int, touched: int | None = None, *, ignore_delay: bool = False) -> Folder:
    """Return a whole block whose upload began at one time (ms), and whose meta.json was written at another."""
    ulid = ulids.derive(began, "block")
    written = began if touched is None else touched
    source = frozenset({ulids.derive(0, "source")})
    return folder_of(Block(ulid, 0, 1, source, written, ulid, ignore_delay=ignore_delay, size=2000))


def broken(whole: Folder, how: str) -> Folder:
    """Return the block with something wrong with it."""
    match how:
        case "no meta":
            return without_meta(whole)
        case "unusable meta":
            return replace(whole, meta=None, sources=frozenset(), meta_error="cut off")
        case "missing file":
            return replace(whole, files={META_FILE: whole.files[META_FILE]})
        case "other size":
            return replace(whole, files={**whole.files, CHUNK_FILE: FileFacts(1, whole.files[META_FILE].modified)})
        case _:
            return whole


@pytest.mark.parametrize(
    ("how", "old"),
    [
        ("", State.HEALTHY),
        ("no meta", State.PARTIAL),
        ("unusable meta", State.MALFORMED),
        ("missing file", State.MALFORMED),
        ("other size", State.MALFORMED),
    ],
)
@pytest.mark.parametrize("young", ["ulid", "meta", "both", "neither"])
@pytest.mark.parametrize(("age", "fresh"), [(59_999, True), (60_000, False), (60_001, False), (0, True), (-1, True)])
def test_fresh_until_both_times_are_older_than_sync_delay(
    how: str, old: State, young: str, age: int, *, fresh: bool
) -> None:
    """A block is Fresh while its ULID or its meta.json is younger than syncDelay, whatever is wrong with it."""
    ages = {"ulid": (age, 1_000_000), "meta": (1_000_000, age), "both": (age, age), "neither": (60_000, 60_000)}[young]
    found = broken(folder(NOW - ages[0], NOW - ages[1]), how)
    expected = State.FRESH if fresh and young != "neither" else old
    assert state(found, NOW, TIMES) == expected
    assert is_fresh(found, NOW, TIMES) == (expected == State.FRESH)


@pytest.mark.parametrize("age", [0, 59_999, 60_000])
def test_without_a_meta_the_last_activity_counts(age: int) -> None:
    """A folder without meta.json is Fresh while any file in it is: somebody still uploads."""
    files = {CHUNK_FILE: FileFacts(1, NOW - 1_000_000), "chunks/000002.parquet": FileFacts(1, NOW - age)}
    found = replace(without_meta(folder(NOW - 1_000_000)), files=files)
    assert state(found, NOW, TIMES) == (State.FRESH if age < 60_000 else State.PARTIAL)


def test_younger_chunks_do_not_count_once_meta_is_there() -> None:
    """With meta.json in place, the time of another file, such as a mark's, does not make a block Fresh again."""
    whole = folder(NOW - 1_000_000)
    assert state(no_compact(whole), NOW, TIMES) == State.HEALTHY


@pytest.mark.parametrize(
    ("how", "expected"), [("", State.HEALTHY), ("unusable meta", State.FRESH), ("missing file", State.FRESH)]
)
def test_ignore_delay_lifts_sync_delay_for_a_whole_block(how: str, expected: State) -> None:
    """ignore_delay makes a block ready at once, if it is whole: a meta.json that cannot be read cannot say so."""
    assert state(broken(folder(NOW, ignore_delay=True), how), NOW, TIMES) == expected


@pytest.mark.parametrize(
    ("ahead", "future"), [(0, False), (4_999, False), (5_000, False), (5_001, True), (10_000_000, True)]
)
def test_a_ulid_from_the_future_is_fresh_and_reported(ahead: int, *, future: bool) -> None:
    """A ULID ahead of the clock is Fresh; beyond the tolerated skew it is reported as wrong."""
    found = folder(NOW + ahead, NOW - 1_000_000)
    assert state(found, NOW, TIMES) == State.FRESH
    assert is_from_future(found, NOW, TIMES) == future


def test_what_is_covered_is_overlapped_only_when_it_is_whole_and_ready() -> None:
    """HealthyOverlapped is a Healthy block that is covered; no other state changes by it."""
    assert state(folder(NOW - 60_000), NOW, TIMES, overlapped=True) == State.HEALTHY_OVERLAPPED
    assert state(folder(NOW), NOW, TIMES, overlapped=True) == State.FRESH
    assert state(broken(folder(0), "no meta"), NOW, TIMES, overlapped=True) == State.PARTIAL
    assert state(broken(folder(0), "missing file"), NOW, TIMES, overlapped=True) == State.MALFORMED
    assert state(marked(folder(0), NOW), NOW, TIMES, overlapped=True) == State.MARKED


@pytest.mark.parametrize("how", ["", "unusable meta", "missing file"])
@pytest.mark.parametrize(
    ("age", "expected"),
    [(0, State.MARKED), (119_000, State.MARKED), (120_000, State.DELETABLE), (121_000, State.DELETABLE)],
)
def test_a_mark_matures_with_delete_delay(how: str, age: int, expected: State) -> None:
    """A marked block is Deletable from deleteDelay after its mark on, fresh or old, whole or not."""
    for began in (NOW, NOW - 1_000_000):
        assert state(marked(broken(folder(began), how), NOW - age), NOW, TIMES) == expected


def test_delete_delay_to_the_millisecond() -> None:
    """The delay runs from the second that the mark names, to the millisecond."""
    found = marked(folder(0), NOW - 120_000)
    assert state(found, NOW - 1, TIMES) == State.MARKED
    assert state(found, NOW, TIMES) == State.DELETABLE


@pytest.mark.parametrize("age", [0, 1_000_000])
def test_marked_without_meta_is_a_deletion_that_began(age: int) -> None:
    """A mark without meta.json is a deletion that stopped half-way."""
    assert state(without_meta(marked(folder(NOW - age), NOW - age)), NOW, TIMES) == State.DELETING


def test_an_unreadable_mark_never_matures() -> None:
    """Nobody knows since when a mark is there that cannot be read: its block stays Marked."""
    whole = folder(0)
    files = {**whole.files, DELETION_MARK: FileFacts(1, 0)}
    assert state(replace(whole, files=files, mark_error="cut off"), NOW, TIMES) == State.MARKED


def test_a_mark_belongs_to_the_folder_it_lies_in() -> None:
    """A mark that names another block marks the one in whose folder it is."""
    foreign = marked(folder(0), NOW - 120_000, as_block=ulids.derive(5, "another"))
    assert state(foreign, NOW, TIMES) == State.DELETABLE


def test_the_whole_life_of_a_block() -> None:
    """Fresh, Healthy, HealthyOverlapped, Marked, back by an unmark, Marked, Deletable, Deleting: in this order."""
    whole = folder(NOW)
    again = marked(whole, NOW + 100_000)
    seen = [
        state(without_meta(whole), NOW, TIMES),
        state(whole, NOW, TIMES),
        state(whole, NOW + 60_000, TIMES),
        state(whole, NOW + 70_000, TIMES, overlapped=True),
        state(marked(whole, NOW + 80_000), NOW + 80_000, TIMES, overlapped=True),
        state(whole, NOW + 90_000, TIMES, overlapped=True),
        state(again, NOW + 100_000, TIMES),
        state(again, NOW + 220_000, TIMES),
        state(without_meta(again), NOW + 220_001, TIMES),
    ]
    assert [str(each) for each in seen] == [
        "Fresh",
        "Fresh",
        "Healthy",
        "HealthyOverlapped",
        "Marked",
        "HealthyOverlapped",
        "Marked",
        "Deletable",
        "Deleting",
    ]


def test_files_that_meta_does_not_list_are_strays() -> None:
    """Files that no rule knows are named as strays, and do not make a block malformed."""
    whole = folder(0)
    odd = replace(whole, files={**whole.files, "notes.txt": FileFacts(1, 0), DELETION_MARK: FileFacts(1, 0)})
    assert odd.stray_files() == ("notes.txt",)
    assert odd.loadable


def test_a_file_without_a_listed_size_need_only_be_there() -> None:
    """Where meta.json gives no size, any size will do; meta.json itself need not be in its own list."""
    whole = folder(0)
    assert whole.meta is not None
    listed = whole.meta.thanos.model_copy(update={"files": (File(rel_path=CHUNK_FILE), File(rel_path=META_FILE))})
    assert replace(whole, meta=whole.meta.model_copy(update={"thanos": listed})).missing_files() == ()


def test_sizes_count_everything_but_marks() -> None:
    """A folder's size is that of its objects without marks; its last activity is that of any."""
    found = marked(folder(0), NOW)
    assert found.size == 2000
    assert found.last_activity == NOW
    assert Folder(found.ulid).last_activity == 0
