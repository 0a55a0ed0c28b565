"""Files whose content changes: what is read in place of what, whoever crashes, races or comes late."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from buckets import WRITES, Call, Spy, killed_at_write, meanwhile
from drops import Content, Drop
from lakes import DAY, FIRST_DAY, STREAM

from drystone import scan, ulids
from drystone.block import keys
from drystone.block.edits import Retire
from drystone.block.folder import Folder
from drystone.block.meta import Replacement
from drystone.engine import audit
from drystone.engine.outcome import Outcome
from drystone.engine.verify import verify_stream
from drystone.errors import BucketError, DrystoneError, HeldError, InputError, SourceChangedError
from drystone.ingest import blocks
from drystone.ingest.files import FilePlan, FileStamp
from drystone.ingest.planning import FilePlanner
from drystone.reader import look
from drystone.testing.streams import Lineage, build_block, with_source

OLD: Content = {1: [1, 2], 2: [3], 3: [4]}
NEW: Content = {2: [30, 31], 3: [40], 9: [50]}
OLD_ROWS, NEW_ROWS = [1, 2, 3, 4], [30, 31, 40, 50]


@pytest.fixture
def drop(tmp_path: Path) -> Drop:
    """A drop folder, with a stream that replaces."""
    return Drop(tmp_path)


def ingested(drop: Drop, *contents: Content) -> None:
    """Put and ingest these contents of one file, one after the other."""
    for content in contents:
        drop.put(content)
        drop.ingest()


def sources(drop: Drop) -> list[str]:
    """Return the sources that can be read now."""
    timeline = look(drop.bucket, STREAM, drop.clock).timeline
    return sorted({source for group in timeline.visible.groups for source in group.sources} - timeline.gone.sources)


def retire(drop: Drop, *named: str) -> None:
    """Retire sources, as a person would."""
    name = ulids.new(drop.clock())
    edit = Retire(id=name, time=drop.clock.now, author="me", reason="wrong", sources=tuple(sorted(named)))
    drop.bucket.create(keys.edit(STREAM, name), edit.to_json())


def assert_is(drop: Drop, rows: list[int]) -> None:
    """Exactly these rows are read once everything is ready, nothing is damaged, and so it stays when all is swept."""
    drop.wait()
    assert drop.rows() == rows
    found = verify_stream(drop.bucket, STREAM, drop.clock.now, deep=True)
    assert [each for each in found.findings if each.severity == "damage"] == []
    drop.settle()
    assert drop.rows() == rows


def test_new_content_takes_the_place_of_the_old_at_once(drop: Drop) -> None:
    """Until the new blocks are ready the old rows are read, and then the new ones, whichever days they lie in."""
    ingested(drop, OLD)
    drop.wait()
    assert drop.rows() == OLD_ROWS
    drop.put(NEW)
    outcome = drop.ingest()
    assert (outcome.summary["files_changed"], outcome.summary["blocks"]) == (1, 3)
    assert drop.rows() == OLD_ROWS, "the new blocks are not ready"
    assert_is(drop, NEW_ROWS)


def test_a_change_is_ingested_once(drop: Drop) -> None:
    """The same content again changes nothing; the old content put back is a change like any other."""
    ingested(drop, OLD, NEW)
    before = drop.blocks()
    drop.ingest()
    assert drop.blocks() == before
    ingested(drop, OLD, NEW, OLD)
    assert_is(drop, OLD_ROWS)
    ingested(drop, {1: [7]})
    assert_is(drop, [7])


def test_what_appends_keeps_both(drop: Drop) -> None:
    """Each content of a path is ingested once, also when an older one comes again; a stream may change its mind."""
    drop.on_change = "append"
    ingested(drop, OLD, NEW, OLD, NEW)
    drop.wait()
    assert drop.rows() == sorted(OLD_ROWS + NEW_ROWS)
    drop.on_change = "replace"
    ingested(drop, {5: [7]})
    drop.wait()
    assert drop.rows() == [7], "all that the path had before is replaced"
    drop.on_change = "append"
    ingested(drop, OLD)
    assert_is(drop, [*OLD_ROWS, 7])


def test_a_stream_that_is_told_nothing_stops(drop: Drop) -> None:
    """The default is an error; what is read already goes on to be welcome, what was replaced does not."""
    drop.on_change = "error"
    ingested(drop, OLD)
    with pytest.raises(SourceChangedError, match=r"set ingest\.on_change to replace or append"):
        ingested(drop, NEW)
    assert_is(drop, OLD_ROWS)
    drop.on_change = "replace"
    drop.ingest()
    drop.on_change = "error"
    drop.ingest()
    with pytest.raises(SourceChangedError):
        ingested(drop, OLD)
    assert_is(drop, NEW_ROWS)


@pytest.mark.parametrize("contents", [(OLD, {}, 0), ({}, NEW, 1), (OLD, {}, 1, NEW, 1), ({}, {})])
def test_files_without_rows(drop: Drop, contents: tuple[Content | int, ...]) -> None:
    """A file that is emptied takes its rows away, and one that was empty gets some."""
    last: Content = {}
    for content in contents:
        if isinstance(content, dict):
            ingested(drop, last := content)
    assert_is(drop, sorted(number for numbers in last.values() for number in numbers))


def test_other_files_are_left_alone(drop: Drop) -> None:
    """What changes under one path concerns no other, not even with the same rows."""
    drop.put(OLD, "b")
    drop.ingest("b")
    ingested(drop, OLD, NEW)
    assert_is(drop, sorted(OLD_ROWS + NEW_ROWS))


def test_what_was_retired_stays_so_and_does_not_take_the_new_content_along(drop: Drop) -> None:
    """Who retires wrong rows and then corrects their file gets the corrected rows."""
    ingested(drop, OLD)
    drop.wait()
    retire(drop, *sources(drop))
    ingested(drop, NEW)
    drop.wait()
    retire(drop, *sources(drop)[:1])
    ingested(drop, {3: [41]})
    assert_is(drop, [41])


def test_what_is_retired_after_the_plan_stops_the_run(drop: Drop) -> None:
    """Rows that would be retired as soon as they are there are not uploaded in silence."""
    ingested(drop, OLD)
    drop.wait()
    old = sources(drop)
    drop.put(NEW)
    assert not attempt(drop, dead_after_the_plan)
    retire(drop, old[0])
    with pytest.raises(InputError, match=r"which input/a replaces, was retired since.* new name"):
        drop.ingest()


def test_a_repaired_source_is_replaced_with_its_repair(drop: Drop) -> None:
    """What a person put in place of an old source goes with it, however it comes to be known."""
    ingested(drop, OLD)
    drop.wait()
    root = sources(drop)[0]
    by = ulids.derive(drop.clock(), "repair")
    rows = scan(drop.bucket, STREAM, FIRST_DAY + DAY, FIRST_DAY + 2 * DAY, now=drop.clock)
    table = pa.Table.from_batches(list(rows))
    lineage = Lineage(retires=(Replacement(root=root, by=by),), ignore_delay=True)
    build_block(drop.bucket, STREAM, drop.config, with_source(table, by), drop.clock, lineage=lineage)
    assert drop.rows() == OLD_ROWS
    ingested(drop, NEW)
    assert_is(drop, NEW_ROWS)


def test_a_clock_that_is_behind_waits(drop: Drop) -> None:
    """Of two replacements the one with the later plan wins, so nothing may be planned before what it replaces."""
    ingested(drop, OLD)
    drop.clock.now -= 5000
    with pytest.raises(HeldError, match="a moment later than now") as caught:
        ingested(drop, NEW)
    assert caught.value.retryable
    drop.wait()
    drop.ingest()
    assert_is(drop, NEW_ROWS)


def test_the_log_tells_replacements_from_first_generation(drop: Drop) -> None:
    """A repair by name takes a source of first generation only."""
    ingested(drop, OLD, NEW)
    assert len(audit.first_generation(drop.bucket, STREAM)) == len(OLD)


def attempt(drop: Drop, before: Callable[[Call], None]) -> bool:
    """Ingest with something happening; tell whether the run came through."""
    try:
        drop.ingest(bucket=Spy(drop.bucket, before), run="other")
    except DrystoneError:
        return False
    return True


def dead_after_blocks(number: int) -> Callable[[Call], None]:
    """Return a `before` of a process that is killed when so many blocks are whole."""
    seen = [0]

    def before(call: Call) -> None:
        if seen[0] >= number and call.verb in WRITES:
            raise BucketError(f"killed at {call.verb} {call.key}.")
        seen[0] += call.verb in WRITES and call.key.endswith("/meta.json")

    return before


def dead_after_the_plan(call: Call) -> None:
    """A process that is killed when it is through with its plans."""
    if call.verb in WRITES and "/.ingest/" not in call.key:
        raise BucketError(f"killed at {call.verb} {call.key}.")


@pytest.mark.parametrize("ready", [True, False])
def test_a_run_that_is_killed_at_any_write(tmp_path: Path, ready: bool) -> None:  # noqa: FBT001
    """Readers see the old rows or the new ones, nothing else and no damage; the next run brings the new ones."""
    for step in count():
        drop = Drop(tmp_path / str(step))
        ingested(drop, OLD)
        if ready:
            drop.wait()
        drop.put(NEW)
        through = attempt(drop, killed_at_write(step))
        drop.wait()
        assert drop.rows() in ((OLD_ROWS, NEW_ROWS) if not through else (NEW_ROWS,))
        drop.ingest()
        drop.wait()
        assert drop.rows() == NEW_ROWS
        if through:
            assert step > 10
            return


def test_content_that_changes_after_a_run_was_killed_at_any_write(tmp_path: Path) -> None:
    """What is there of the old content, be it nothing or all, is replaced; also if the second run is killed as well."""
    for step in count():
        through = False
        for blocks_before in (1, 2):
            drop = Drop(tmp_path / f"{step}-{blocks_before}")
            drop.put(OLD)
            through = attempt(drop, killed_at_write(step))
            drop.put(NEW)
            assert not attempt(drop, dead_after_blocks(blocks_before))
            drop.wait()
            drop.rows()
            drop.ingest()
            drop.wait()
            assert drop.rows() == NEW_ROWS
        if through:
            assert step > 10
            return


def test_a_run_that_sleeps_while_another_one_is_through(tmp_path: Path) -> None:
    """Two runs with the same new content, one of which sleeps at any of its writes: it is there once."""
    for step in count():
        drop = Drop(tmp_path / str(step))
        ingested(drop, OLD)
        drop.put(NEW)
        others: list[Outcome] = []
        attempt(drop, meanwhile(step, lambda drop=drop, others=others: others.append(drop.ingest())))  # type: ignore[misc]
        drop.ingest()
        assert_is(drop, NEW_ROWS)
        if not others:
            assert step > 10
            return


def check_late_writer(folder: Path) -> None:
    """A run sleeps at any write after its last look at the file, and the file changes, and is ingested."""
    for step in count():
        drop = Drop(folder / str(step))
        drop.put(OLD)
        others: list[Outcome] = []

        def change(drop: Drop = drop, others: list[Outcome] = others) -> None:
            drop.put(NEW)
            others.append(drop.ingest())

        attempt(drop, meanwhile(step, change, since=".sources"))
        if not others:
            assert step > 10
            return
        drop.wait()
        assert drop.rows() == NEW_ROWS, step


def test_a_late_writer_of_old_content_harms_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its plan was given up, or all of its sources are known and replaced: also those that it has yet to upload."""
    monkeypatch.setattr(FileStamp, "check", lambda *_: None)
    check_late_writer(tmp_path)


def test_two_runs_at_once(tmp_path: Path) -> None:
    """Threads that ingest the same new content at once double nothing."""
    drop = Drop(tmp_path)
    ingested(drop, OLD)
    drop.put(NEW)
    with ThreadPoolExecutor(4) as pool:
        through = list(pool.map(lambda _: attempt(drop, lambda _: None), range(4)))
    # One that plans what another has just planned may be told to try again.
    assert any(through)
    drop.ingest()
    assert_is(drop, NEW_ROWS)


def test_appending_to_what_is_half_there_is_refused(drop: Drop) -> None:
    """Of the content that is gone nobody could ever ingest the rest: a person decides. What never began is passed."""
    drop.on_change = "append"
    drop.put(OLD)
    assert not attempt(drop, killed_at_write(1))
    ingested(drop, NEW)
    drop.put(OLD)
    assert not attempt(drop, killed_at_write(8))
    with pytest.raises(SourceChangedError, match="before all of its last one was ingested"):
        ingested(drop, {5: [7]})
    ingested(drop, OLD)
    assert_is(drop, sorted(OLD_ROWS + NEW_ROWS))


def test_what_was_half_ingested_under_another_rule_is_refused(drop: Drop) -> None:
    """Without its list of sources nobody can tell what a late run may still upload."""
    drop.on_change = "error"
    drop.put(OLD)
    assert not attempt(drop, killed_at_write(8))
    drop.on_change = "replace"
    with pytest.raises(SourceChangedError, match="Put the last content back"):
        ingested(drop, NEW)
    ingested(drop, OLD, NEW)
    assert_is(drop, NEW_ROWS)


def forget_the_pairs(patch: pytest.MonkeyPatch) -> None:
    """Upload new content beside the old."""
    patch.setattr(FilePlan, "retires", lambda *_, **__: ())


def take_half_for_whole(patch: pytest.MonkeyPatch) -> None:
    """Pass over a source of which any block is there."""

    def some(folders: list[Folder]) -> frozenset[str]:
        return frozenset(source for folder in folders if folder.loadable for source in folder.sources)

    patch.setattr("drystone.verbs.upload.sources_of", some)


def replace_nothing_by_half(patch: pytest.MonkeyPatch) -> None:
    """Upload a group in place of what was never there, without a root."""
    patch.setattr(blocks.BlockBuilder, "upload_empty", lambda _: [])


def never_give_up(patch: pytest.MonkeyPatch) -> None:
    """Take a plan that has no list of sources for one that has none, and let its run go on."""
    patch.setattr(FilePlanner, "_sources", lambda *_: ())


@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (forget_the_pairs, lambda folder: test_new_content_takes_the_place_of_the_old_at_once(Drop(folder))),
        (take_half_for_whole, lambda folder: test_a_run_that_is_killed_at_any_write(folder, ready=True)),
        (replace_nothing_by_half, test_content_that_changes_after_a_run_was_killed_at_any_write),
        (never_give_up, check_late_writer),
    ],
)
def test_planted_bugs_are_seen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    test: Callable[[Path], None],
) -> None:
    """Each bug makes its test fail."""
    if test is check_late_writer:
        monkeypatch.setattr(FileStamp, "check", lambda *_: None)
    plant(monkeypatch)
    with pytest.raises((AssertionError, DrystoneError)):
        test(tmp_path)
