"""An erasure to its end, with real blocks: searched, rewritten, swept, receipted, and reopened by what comes late."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from lakes import STREAM, Lake, make_lake, rows
from runs import Pickling

from drystone import clock, ulids
from drystone.block import keys
from drystone.block.edits import Erase
from drystone.block.guards import Pin
from drystone.block.predicates import Comparison
from drystone.block.receipt import Receipt
from drystone.config.load import load
from drystone.coordination import NoCoordination
from drystone.engine import erasures as engine_erasures
from drystone.engine import recipe as engine_recipe
from drystone.engine.count import BlockHits
from drystone.engine.erasures import Look, LookInto, erasures, keep_receipt, known_clear, last_receipt, receipt_of
from drystone.engine.job import Job
from drystone.engine.pacer import ThreadPacer
from drystone.engine.recipe import Recipe
from drystone.engine.record import read_record
from drystone.errors import DamagedStreamError, UnreadableBlockError
from drystone.jobs import CompactRequest, DetectRequest, EraseRequest, JobResult, MarkRequest, SweepRequest
from drystone.plan import erasures as erasure_planning
from drystone.reader import scan
from drystone.testing.streams import ManualClock
from drystone.timeline.pending import PendingEdit
from drystone.tracker import ListingTracker
from drystone.verbs import compact, detect, removal
from drystone.verbs.requests import Desk
from drystone.verbs.steps import run_step

HOUR = 3_600_000
OSLO = EraseRequest(predicate=Comparison(column="city", op="=", value="Oslo"), reason="request 17", author="ann")


class World:
    """A stream whose verbs run in this process, on a clock that is ahead of the writers'."""

    def __init__(self, lake: Lake) -> None:
        """Look at a lake."""
        self.lake = lake
        self.bucket = lake.bucket
        self.clock = ManualClock(clock.system())

    def job(self, *, dry_run: bool = False) -> Job:
        """Return what verbs work with."""
        return Job(
            stream=STREAM,
            config=self.lake.config,
            run=f"run-{ulids.new(self.clock.now)}",
            dry_run=dry_run,
            bucket=self.bucket,
            record=read_record(self.bucket, STREAM),
            tracker=ListingTracker(self.bucket, STREAM),
            coordination=NoCoordination(),
            workers=Pickling(self.clock),
            clock=self.clock,
            pacer=ThreadPacer(),
        )

    def desk(self) -> Desk:
        """Return where requests are answered."""
        return Desk(self.bucket, STREAM, self.lake.config, self.clock)

    def erase(self, request: EraseRequest = OSLO) -> str:
        """Ask for an erasure; return the id of its edit."""
        desk = self.desk()
        (done,) = desk.carry_out(desk.plan(request, desk.look()), "run", "ann")
        return done

    def rewrite(self) -> list[str]:
        """Plan and execute the rewrites; return what was uploaded."""
        planned = detect.run(self.job(), DetectRequest(kind="rewrite"))
        assert planned.plan_key is not None
        done: list[str] = []
        for batch in planned.batches:
            outcome = compact.run(self.job(), CompactRequest(plan_key=planned.plan_key, batch=batch.number))
            assert outcome.failures == []
            done += outcome.blocks
        return done

    def sweep(self) -> None:
        """Let the delays pass, mark, let them pass again, and delete."""
        self.clock.advance(HOUR)
        removal.run_mark(self.job(), MarkRequest())
        self.clock.advance(HOUR)
        removal.run_sweep(self.job(), SweepRequest())

    def receipt(self, edit: str) -> Receipt:
        """Return the state of an erasure as a receipt that is kept."""
        self.clock.advance(1)
        seen = self.desk().look()
        (found,) = erasures(seen.snapshot, edit)
        keep_receipt(self.bucket, receipt_of(self.bucket, seen, found, "run"))
        last = last_receipt(self.bucket, STREAM, edit)
        assert last is not None
        return last

    def cities(self) -> list[str]:
        """Return the cities that the chunks in the bucket hold, whoever may read them."""
        found: set[str] = set()
        for item in self.bucket.list(f"{STREAM}/0"):
            if "/chunks/" in item.key:
                found.update(pq.read_table(self.bucket.path(item.key), columns=["city"])["city"].to_pylist())
        return sorted(found)


@pytest.fixture(scope="module")
def lake_once(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The original of `world`'s lake."""
    lake = make_lake(tmp_path_factory.mktemp("lake"))
    for number, name in enumerate("abc"):
        lake.ingest(name, rows(number))
    lake.ingest("d", rows(3, cities=["Rome"]))
    lake.merge("f", "a", "b", cut="Lund")
    return lake


@pytest.fixture
def world(lake_once: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """Only groups with such rows are rewritten; after the sweep no byte of them is left, says the receipt."""
    world = World(lake_once.copy(tmp_path))
    monkeypatch.setattr(clock, "system", world.clock)
    return world


def test_an_erasure_comes_to_its_end(world: World) -> None:
    """Only groups with such rows are rewritten; after the sweep no byte of them is left: the receipt is complete."""
    edit = world.erase()
    assert world.receipt(edit).state == "open"
    uploaded = world.rewrite()
    assert len(uploaded) == 2, "f as one, c as one; d stays"
    assert world.cities() == ["Bergen", "Lund", "Oslo", "Rome"]
    assert {left.block for left in world.receipt(edit).left} == {
        world.lake.ulid(name) for name in ("a", "b", "c", "f1")
    }
    world.sweep()
    assert world.cities() == ["Bergen", "Lund", "Rome"]
    receipt = world.receipt(edit)
    assert (receipt.state, receipt.left, receipt.applied) == ("complete", (), 2)
    assert receipt.clear == (world.lake.ulid("d"),)
    assert {place.what for place in receipt.elsewhere} >= {"pins", "clones", "backup streams", "old object versions"}
    assert {place.state for place in receipt.elsewhere} == {"clear", "none", "unknown"}
    assert world.rewrite() == [], "an erasure that is complete has nothing left to rewrite"


def test_what_was_looked_through_is_not_read_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A block without such a row is noted as clear, and its file is opened once for an erasure, not once a run."""
    edit = world.erase()
    world.rewrite()
    assert known_clear(world.bucket, STREAM, edit) == {world.lake.ulid("d"), world.lake.ulid("f")}
    looked: list[str] = []
    monkeypatch.setattr(BlockHits, "count", lambda _self, meta, _edits: looked.append(meta.ulid) or {})
    detect.run(world.job(), DetectRequest(kind="rewrite"))
    assert world.lake.ulid("d") not in looked
    assert looked


def test_a_block_that_comes_late_reopens_it(world: World) -> None:
    """A zombie's upload of an old source after the end: its rows are not read, it is rewritten, and then it is over."""
    edit = world.erase()
    world.rewrite()
    world.sweep()
    complete = world.receipt(edit)
    assert complete.state == "complete"
    world.lake.clock.advance(world.clock.now - world.lake.clock.now)
    late = world.lake.upload("zombie", world.lake.given["c"])
    assert [left.block for left in world.receipt(edit).left] == [late.ulid]
    assert last_receipt(world.bucket, STREAM, edit, complete=True) == complete
    world.clock.advance(HOUR)
    assert "Oslo" not in {row["city"] for batch in scan(world.bucket, STREAM) for row in batch.to_pylist()}
    world.sweep()
    assert world.cities() == ["Bergen", "Lund", "Rome"]
    assert world.receipt(edit).state == "complete"


def test_a_long_read_keeps_an_erasure_open(world: World) -> None:
    """A read that was pinned before the edit may still hold such rows; one that began later does not."""
    pin = Pin(owner="export", created=world.clock.now, expires=world.clock.now + HOUR)
    edit = world.erase(OSLO.model_copy(update={"predicate": Comparison(column="city", op="=", value="Paris")}))
    world.rewrite()
    world.sweep()
    assert world.receipt(edit).state == "complete"
    world.bucket.put(f"{keys.pins(STREAM)}x.json", pin.model_copy(update={"expires": world.clock.now + 10}).to_json())
    receipt = world.receipt(edit)
    assert (receipt.state, receipt.left) == ("open", ())
    assert any(place.state == "open" and "export" in place.note for place in receipt.elsewhere)
    world.clock.advance(10)
    assert world.receipt(edit).state == "complete"


def test_a_block_that_cannot_be_read_stops_no_other(world: World) -> None:
    """It is named in the report, and keeps the erasure open; the others are rewritten."""
    edit = world.erase()
    path = world.lake.file("c", "chunks/000001.parquet")
    path.write_bytes(b"\xff" * path.stat().st_size)
    planned = detect.run(world.job(), DetectRequest(kind="rewrite"))
    assert planned.summary["blocks_unread"] == 1
    assert any("could not be looked through" in line and world.lake.ulid("c") in line for line in planned.report)
    assert planned.summary["merges"] == 1
    assert world.lake.ulid("c") in {left.block for left in world.receipt(edit).left}


def test_a_dry_run_shows_what_an_erasure_would_rewrite(world: World) -> None:
    """An erasure that is not written yet is taken for written, its rows are counted, and nothing is changed."""
    before = {item.key for item in world.bucket.list("")}
    planned = detect.run(world.job(dry_run=True), DetectRequest(kind="rewrite", proposed=OSLO))
    assert planned.summary["merges"] == 2
    assert "rewrite: 20 rows were erased" in "\n".join(planned.report)
    assert {item.key for item in world.bucket.list("")} == before
    with pytest.raises(Exception, match="only a dry run"):
        detect.run(world.job(), DetectRequest(kind="rewrite", proposed=OSLO))


def test_retired_rows_are_dropped_for_good(world: World) -> None:
    """A source of a compacted block that is retired is rewritten away, and the others' rows stay as they are."""
    found = run(world, "retire", sources=[world.lake.source("a")], reason="wrong", author="ann")
    assert found.ok, found.error
    kept = {row["count"] for batch in scan(world.bucket, STREAM) for row in batch.to_pylist()}
    world.rewrite()
    world.sweep()
    there = {row["count"] for batch in scan(world.bucket, STREAM) for row in batch.to_pylist()}
    assert there == kept
    raw = [name for item in world.bucket.list(f"{STREAM}/0") if "/chunks/" in (name := item.key)]
    assert not any(
        pc.any(pc.less(pq.read_table(world.bucket.path(name), columns=["count"])["count"], 1000)).as_py()
        for name in raw
    )


def run(world: World, step: Any, *, dry_run: bool = False, **request: object) -> JobResult:
    """Do a step as an Airflow task does."""
    loaded = load(world.lake.config_file)
    return run_step(step, loaded, STREAM, "dag.run.task", request, world.bucket, dry_run=dry_run, now=world.clock)


def test_steps_report_what_they_did(world: World) -> None:
    """A step's result says what was done, for whom it failed and what to do; done again, it does nothing more."""
    asked = OSLO.model_dump()
    dry = run(world, "erase", dry_run=True, **asked)
    assert (dry.ok, dry.summary["actions"], dry.summary["done"]) == (True, 1, 0)
    assert list(world.bucket.list(keys.edits(STREAM))) == []
    first, again = run(world, "erase", **asked), run(world, "erase", **asked)
    assert (first.summary["done"], again.summary["done"]) == (1, 0)
    assert "at most" in first.report
    assert "it is in force since" in again.report
    receipt = run(world, "receipt")
    assert receipt.summary == {"erasures": 1, "open": 1}
    wrong = run(world, "erase", **{**asked, "reason": ""})
    assert (wrong.ok, wrong.retryable) == (False, False)
    assert wrong.error.startswith("The request to erase is wrong: reason: ")
    retired = run(world, "retire", dry_run=True, blocks=[world.lake.ulid("c")], reason="r", author="a")
    assert f"sources: {world.lake.source('c')}" in retired.report
    assert f"30 rows of group {world.lake.ulid('c')}, which is all of it" in retired.report
    missing = run(world, "retire", sources=["01ARZ3NDEKTSV4RRFFQ69G5FAV"], reason="r", author="a")
    assert "has no source" in missing.error


OSLO_REQUEST = {"predicate": OSLO.predicate.model_dump(), "reason": "r", "author": "ann"}


def edits(world: World) -> list[str]:
    """Return the keys of the stream's edits."""
    return [item.key for item in world.bucket.list(keys.edits(STREAM))]


def test_a_plan_is_kept_and_carried_out_as_it_was_shown(world: World) -> None:
    """Planning writes no edit; what was said yes to is carried out, once, and no other plan in its place."""
    planned = run(world, "plan", asked=OSLO_REQUEST)
    assert planned.ok
    assert edits(world) == []
    assert (len(planned.batches), planned.batches[0].actions) == (1, 1)
    bound = {"plan_key": planned.plan_key, "author": "ann"}
    refused = run(world, "carry-out", **bound, digest="0" * 16)
    assert (refused.ok, "is not the one that was shown" in refused.error) == (False, True)
    assert edits(world) == []
    for _ in range(2):
        done = run(world, "carry-out", **bound, digest=planned.summary["digest"])
        assert (done.ok, done.summary["edit"]) == (True, planned.summary["edit"])
    assert [item.partition(".edits/")[2] for item in edits(world)] == [f"{planned.summary['edit']}.json"]
    assert run(world, "plan", asked=OSLO_REQUEST).batches == []


def test_a_dry_run_keeps_no_plan(world: World) -> None:
    """What is only shown cannot be carried out."""
    shown = run(
        world, "plan", dry_run=True, asked={"sources": [world.lake.source("a")], "reason": "r", "author": "ann"}
    )
    assert (shown.ok, shown.plan_key, shown.batches) == (True, None, [])
    assert "retire" in shown.report


def test_what_retention_hides_is_swept(world: World) -> None:
    """Blocks of which every row has expired are marked and deleted, whatever covers them."""
    config = world.lake.config_file.read_text() + "    retention: {raw: 30d}\n"
    world.lake.config_file.write_text(config)
    assert run(world, "retain").summary["done"] == 1
    world.sweep()
    assert world.cities() == []
    assert run(world, "retain").summary["done"] == 0


def test_a_receipt_that_cannot_be_read_is_named(world: World) -> None:
    """A broken receipt is an error that says what to do, and not an erasure without evidence."""
    edit = world.erase()
    world.bucket.put(f"{keys.receipts(STREAM, edit)}{ulids.new(0)}.json", b"{")
    with pytest.raises(UnreadableBlockError, match="Remove it: the next run looks through the blocks again"):
        world.receipt(edit)


def test_the_same_receipt_is_not_written_twice(world: World) -> None:
    """Receipts are kept when something has changed, however often the state is asked for."""
    edit = world.erase()
    assert world.receipt(edit) == world.receipt(edit)
    assert len(list(world.bucket.list(keys.receipts(STREAM, edit)))) == 1


def test_a_damaged_block_is_found_out_by_name(world: World) -> None:
    """Whoever looks through a block that is no Parquet file gets an error that names it."""
    seen = world.desk().look()
    world.erase()
    path = world.lake.file("d", "chunks/000001.parquet")
    path.write_bytes(b"\0" * path.stat().st_size)
    meta = seen.snapshot.folders[world.lake.ulid("d")].meta
    assert meta is not None
    (found,) = erasures(world.desk().look().snapshot)
    assert isinstance(found, Erase)
    hits = BlockHits(world.bucket, STREAM, "time")
    with pytest.raises(DamagedStreamError, match=world.lake.ulid("d")):
        hits.count(meta, (PendingEdit(found, None),))
    assert world.lake.ulid("d") in LookInto(hits)(Look(meta, (PendingEdit(found, None),))).error


def a_covered_block_does_not_count(patch: pytest.MonkeyPatch) -> None:
    """What is superseded is taken for gone."""
    real = erasure_planning.check_erasure

    def check(snapshot: Any, timeline: Any, *arguments: Any) -> Any:
        found = real(snapshot, timeline, *arguments)
        return replace(found, left=tuple(each for each in found.left if "superseded" not in each.why))

    patch.setattr(engine_erasures, "check_erasure", check)


def every_block_is_clear(patch: pytest.MonkeyPatch) -> None:
    """A block that holds such rows is noted as looked through without one."""
    patch.setattr(BlockHits, "count", lambda _self, _meta, edits: {each.edit.id: 0 for each in edits})


def a_clear_block_stays_unknown(patch: pytest.MonkeyPatch) -> None:
    """What was looked through is forgotten."""
    patch.setattr(engine_erasures, "known_clear", lambda *_arguments: frozenset())


def a_rewrite_applies_nothing(patch: pytest.MonkeyPatch) -> None:
    """A rewrite says that it has applied the edit, and passes its rows on."""
    real = engine_recipe._inputs
    patch.setattr(engine_recipe, "_inputs", lambda *them: [replace(each, edits=()) for each in real(*them)])


def a_rewrite_forgets_the_edit(patch: pytest.MonkeyPatch) -> None:
    """A rewrite drops the rows, and does not say so."""
    real = Recipe.__init__
    patch.setattr(Recipe, "__init__", lambda self, **named: real(self, **{**named, "edits": frozenset()}))


@pytest.mark.parametrize(
    "plant",
    [
        a_covered_block_does_not_count,
        every_block_is_clear,
        a_clear_block_stays_unknown,
        a_rewrite_applies_nothing,
        a_rewrite_forgets_the_edit,
    ],
)
def test_a_planted_bug_in_erasures_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With this bug in the code, an erasure does not come to its end, or says so too soon."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_an_erasure_comes_to_its_end(world)
