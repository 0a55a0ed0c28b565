"""Repairs on a store that fails at any moment: what is half done shows nowhere, and the same plan again finishes it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from buckets import Spy, failing
from lakes import CONFIG, HOUR, SCHEMA, STREAM, rows, values

from drystone import ulids
from drystone.block.edits import Retire
from drystone.block.predicates import Comparison
from drystone.bucket import Bucket, MemoryBucket
from drystone.config.model import Config, StreamConfig
from drystone.coordination import NoCoordination
from drystone.engine import audit
from drystone.engine.job import Job
from drystone.engine.local import LocalWorkers
from drystone.engine.pacer import ThreadPacer
from drystone.engine.record import read_record
from drystone.engine.repair import Repaired, carry_out, plan_repair
from drystone.engine.reupload import configured_schema, upload_replacement
from drystone.engine.verify import verify_stream
from drystone.errors import BucketError, PlanExpiredError
from drystone.jobs import RepairRequest
from drystone.plan.model import Plan
from drystone.reader import scan
from drystone.testing.streams import ManualClock, build_block, source_id, with_source, write_record
from drystone.tracker import ListingTracker
from drystone.verbs.requests import write_edit

NOW = 1_700_000_000_000
OSLO = Comparison(column="city", op="=", value="Oslo")


class World:
    """A stream of two blocks in memory, an hour old."""

    def __init__(self, name: str) -> None:
        """Upload them."""
        self.config: StreamConfig = Config.model_validate(yaml.safe_load(CONFIG)).streams[STREAM]
        self.clock = ManualClock(NOW - HOUR)
        self.bucket = MemoryBucket(name, self.clock)
        write_record(self.bucket, STREAM, self.config)
        self.blocks = [
            build_block(
                self.bucket, STREAM, self.config, with_source(rows(n), source_id(NOW - HOUR, str(n))), self.clock
            )
            for n in range(2)
        ]
        self.clock.advance(HOUR)

    def job(self, bucket: Bucket | None = None) -> Job:
        """A job that this process works on."""
        opened = bucket or self.bucket
        return Job(
            stream=STREAM,
            config=self.config,
            run="run",
            dry_run=False,
            bucket=opened,
            record=read_record(self.bucket, STREAM),
            tracker=ListingTracker(opened, STREAM),
            coordination=NoCoordination(),
            workers=LocalWorkers(self.clock),
            clock=self.clock,
            pacer=ThreadPacer(),
        )

    def plan(self, base: Path, **request: object) -> Plan:
        """Plan a repair."""
        return plan_repair(self.job(), RepairRequest.model_validate(request), base)

    def act(self, plan: Plan, bucket: Bucket | None = None, table: pa.Table | None = None) -> Repaired:
        """Carry out a plan's only batch; a reupload brings this table, by default the rows of number 7."""
        job, new = self.job(bucket), rows(7) if table is None else table
        return carry_out(job, plan, 0, lambda each: upload_replacement(job, each, new, configured_schema(job)))

    def read(self, ahead: int = 0) -> list:
        """What a reader sees, some ms later."""
        return values(pa.Table.from_batches(scan(self.bucket, STREAM, now=lambda: self.clock.now + ahead), SCHEMA))


@pytest.fixture
def world(request: pytest.FixtureRequest) -> World:
    """The two blocks."""
    return World(request.node.name)


def wanted(kind: str) -> list:
    """What a reader sees once a repair is done and ready."""
    every = values(pa.concat_tables([rows(0), rows(1)]))
    return {
        "rewrite": every,
        "drop-rows": [row for row in every if row[1] != "Oslo"],
        "reupload": values(pa.concat_tables([rows(1), rows(7)])),
    }[kind]


def asked(world: World, kind: str, folder: Path) -> dict[str, object]:
    """The request of a repair."""
    file = folder / "corrected.csv"
    file.write_text("whatever")
    (source,) = world.blocks[0].compaction.sources
    return {
        "rewrite": {"kind": "rewrite", "blocks": [world.blocks[0].ulid]},
        "drop-rows": {"kind": "drop-rows", "where": OSLO},
        "reupload": {"kind": "reupload", "source": source, "path": str(file)},
    }[kind]


@pytest.mark.parametrize("kind", ["rewrite", "drop-rows", "reupload"])
@pytest.mark.parametrize("step", range(9))
def test_a_store_that_fails_leaves_nothing_half_done(world: World, kind: str, step: int, tmp_path: Path) -> None:
    """Whichever write fails, of each source the old rows are read or the new ones; the same plan again ends well."""
    plan = world.plan(tmp_path, **asked(world, kind, tmp_path))
    before, after = world.read(), wanted(kind)
    spy = Spy(world.bucket, failing(step, {"put", "create", "upload"}))
    try:
        failed = world.act(plan, spy).failures
    except BucketError:
        failed = ["the store failed"]
    for source in range(2):  # Each source is replaced by itself.
        mine, old, new = ([r for r in found if r[2] // 1000 == source] for found in (world.read(HOUR), before, after))
        assert mine in (old, new)
    done = world.act(plan)
    assert done.failures == []
    world.clock.advance(HOUR)
    assert world.read() == wanted(kind)
    found = verify_stream(world.bucket, STREAM, world.clock.now, deep=True)
    assert {finding.severity for finding in found.findings} <= {"problem"}, found.findings
    assert failed or step >= len(spy.writes())


@pytest.mark.parametrize("kind", ["rewrite", "drop-rows", "reupload"])
def test_the_same_plan_again_uploads_nothing(world: World, kind: str, tmp_path: Path) -> None:
    """A repair that is carried out twice, before its blocks are ready and afterwards, is done once."""
    plan = world.plan(tmp_path, **asked(world, kind, tmp_path))
    first = world.act(plan)
    assert first.blocks
    for ahead in (0, HOUR // 2):
        world.clock.advance(ahead)
        again = world.act(plan)
        assert (again.blocks, again.failures) == ([], [])
        assert any("done before" in line for line in again.lines)
    assert [entry.block for entry in audit.read(world.bucket, STREAM) if entry.what == "upload"] == first.blocks


@pytest.mark.parametrize("step", range(12))
def test_half_a_replacement_is_not_taken_for_done(world: World, step: int, tmp_path: Path) -> None:
    """A corrected file of two days is one group of two blocks: with one of them there, the same plan uploads both."""
    two_days = pa.concat_tables([rows(7), rows(7, day=1)])
    plan = world.plan(tmp_path, **asked(world, "reupload", tmp_path))
    with suppress(BucketError):
        world.act(plan, Spy(world.bucket, failing(step, {"put", "create", "upload"})), two_days)
    done = world.act(plan, table=two_days)
    assert done.failures == []
    assert world.read() == values(pa.concat_tables([rows(1), two_days]))


@pytest.mark.parametrize("kind", ["drop-rows", "reupload"])
def test_a_source_that_was_retired_meanwhile_is_not_replaced(world: World, kind: str, tmp_path: Path) -> None:
    """What somebody took away since the plan stays away, and whoever carries the plan out is told."""
    plan = world.plan(tmp_path, **asked(world, kind, tmp_path))
    (source,) = world.blocks[0].compaction.sources
    now = world.clock.now
    edit = Retire(id=ulids.new(now), reason="wrong", author="ann", time=now, sources=(source,))
    write_edit(world.bucket, STREAM, edit)
    done = world.act(plan)
    assert [f"source {source} was retired since" in failure for failure in done.failures] == [True]
    kept = [row for row in wanted("drop-rows" if kind == "drop-rows" else "rewrite") if row[2] // 1000 == 1]
    assert world.read(HOUR) == kept


def test_a_plan_that_slept_is_not_carried_out(world: World, tmp_path: Path) -> None:
    """A repair's plan expires as every other."""
    plan = world.plan(tmp_path, **asked(world, "rewrite", tmp_path))
    world.clock.advance(plan.expires - plan.created)
    with pytest.raises(PlanExpiredError):
        world.act(plan)


def test_a_file_that_changed_since_the_plan_is_refused(world: World, tmp_path: Path) -> None:
    """What a person said yes to is the file of that digest."""
    request = asked(world, "reupload", tmp_path)
    plan = world.plan(tmp_path, **request)
    Path(str(request["path"])).write_text("something else")
    done = world.act(plan)
    assert done.blocks == []
    assert "changed since the plan was made" in done.failures[0]


def test_a_source_that_was_compacted_meanwhile_is_planned_again(world: World, tmp_path: Path) -> None:
    """Rows that another group holds by now are not replaced from a plan about the old one."""
    plan = world.plan(tmp_path, **asked(world, "drop-rows", tmp_path))
    rewritten = world.plan(tmp_path, kind="rewrite", blocks=[block.ulid for block in world.blocks])
    world.act(rewritten)
    world.clock.advance(HOUR // 2)
    assert len(world.act(plan).failures) == 2
    assert world.read() == wanted("rewrite")


def test_many_sources_of_one_group_are_replaced_in_shares(world: World, tmp_path: Path) -> None:
    """A group of forty sources is read once for every sixteen, and each source has a block of its own."""
    every = []
    for number in range(2, 42):
        table = with_source(rows(number), source_id(NOW - HOUR, str(number)))
        every.append(table)
    build_block(world.bucket, STREAM, world.config, pa.concat_tables(every), world.clock)
    world.clock.advance(HOUR)
    before = world.read()
    plan = world.plan(tmp_path, kind="drop-rows", where=OSLO)
    assert sorted(len(action.swaps) for action in plan.replaces) == [1, 1, 8, 16, 16]
    done = world.act(plan)
    assert (len(done.blocks), done.failures) == (42, [])
    assert world.read(HOUR) == [row for row in before if row[1] != "Oslo"]
