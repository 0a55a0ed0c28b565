"""Whole DAG runs with `dag.test()`: what flows between tasks, with stand-ins for spark-submit and the jobs.

Real ones run under the real scheduler, in test_scheduler.py.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.asset import AssetEvent
from airflow.models.dagrun import DagRun
from airflow.sdk.exceptions import AirflowFailException
from airflow.utils.session import create_session
from sqlalchemy import select

from drystone.airflow.erase import erase_request
from drystone.airflow.run_report import RunReport
from drystone.airflow.runs import results_prefix
from drystone.block.meta import Meta
from drystone.block.receipt import Receipt
from drystone.bucket import LocalBucket
from drystone.config.load import load
from drystone.engine import audit
from drystone.jobs import RepairRequest
from drystone.testing.streams import ManualClock, build_block, source_id, with_source, write_record

ROOT = Path(__file__).resolve().parents[2]
HOME = Path(os.environ["AIRFLOW_HOME"])


@pytest.fixture
def bucket(airflow_home: Path) -> LocalBucket:
    """The bucket of the streams, which the tests share."""
    return LocalBucket(airflow_home / "bucket")


@pytest.fixture
def standins(submit_standin: None, monkeypatch: pytest.MonkeyPatch, database: Path) -> Any:
    """A function that sets what the job of each task does."""

    def program(**todo: Any) -> None:
        monkeypatch.setenv("STANDIN", json.dumps({name.replace("__", "."): what for name, what in todo.items()}))

    return program


def run(dag_id: str, **conf: Any) -> tuple[DagRun, dict[str, str]]:
    """Run a DAG to its end; return the run and each task's state, by its id and map index."""
    dag = DagBag(dag_folder=str(ROOT / "dags")).dags[dag_id]
    for task in dag.tasks:
        task.retries = 0
    done = dag.test(run_conf=conf)
    names = {ti: ti.task_id if ti.map_index < 0 else f"{ti.task_id}.{ti.map_index}" for ti in done.get_task_instances()}
    return done, {name: str(ti.state) for ti, name in names.items()}


def results(bucket: LocalBucket, done: DagRun) -> dict[str, dict[str, Any]]:
    """The objects that a run left in the bucket, by task."""
    prefix = results_prefix("events", done.dag_id, done.run_id)
    found = {info.key.removeprefix(prefix).removesuffix(".json"): info.key for info in bucket.list(prefix)}
    return {task: json.loads(bucket.get(key)) for task, key in found.items()}


def test_ingest_uploads_waits_and_publishes(standins: Any, bucket: LocalBucket) -> None:
    """An ingest run gives the form's path to its job, and ends with a report and an asset event."""
    standins()
    done, states = run("events__ingest", path="in/x.csv")
    assert set(states.values()) == {"success"}
    found = results(bucket, done)
    assert json.loads(found["upload"]["summary"]["request"]) == {
        "interval": None, "path": "in/x.csv", "force": False, "accept_gap": False
    }  # fmt: skip
    with create_session() as session:
        (event,) = session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == done.run_id))
        assert event.asset.name == "events.ingested"
        assert event.extra["report_key"] in {info.key for info in bucket.list("events/.reports/")}
    report = RunReport.model_validate(found["report"])
    assert [(job.task, job.ok) for job in report.jobs] == [("upload", True)]
    assert report.failed == ()


def test_an_ingest_that_fails_leaves_a_report_and_tells_nobody(standins: Any, bucket: LocalBucket) -> None:
    """A failed upload fails the run; its report says why, and no other workflow is started."""
    standins(upload={"exit": 1, "result": {"error": "Row 7 has no time."}})
    done, states = run("events__ingest")
    assert states == {"upload": "failed", "wait_until_ready": "upstream_failed", "publish": "failed"}
    report = RunReport.model_validate(results(bucket, done)["report"])
    assert report.failed == ("upload", "wait_until_ready")
    assert "Row 7 has no time." in report.to_markdown()
    with create_session() as session:
        assert session.scalars(select(AssetEvent).where(AssetEvent.source_run_id == done.run_id)).all() == []


def test_an_empty_lifecycle_goes_through(standins: Any, bucket: LocalBucket) -> None:
    """With nothing to compact the mapped tasks are skipped, and everything after them still runs."""
    standins()
    done, states = run("events__lifecycle")
    skipped = {"compact_minor", "compact_major"}
    assert {name for name, state in states.items() if state == "skipped"} == skipped
    assert {state for name, state in states.items() if name not in skipped} == {"success"}
    assert set(results(bucket, done)) == {"plan_minor", "plan_major", "mark", "sweep", "report"}


def test_batches_are_mapped_and_one_that_fails_stops_no_other(standins: Any, bucket: LocalBucket) -> None:
    """Each batch is a task of its own; when one fails the rest goes on, and the run fails in the end."""
    standins(plan_minor={"batches": 3}, compact_minor__1={"exit": 1, "result": {"error": "Too big."}})
    done, states = run("events__lifecycle")
    assert [states[f"compact_minor.{n}"] for n in range(3)] == ["success", "failed", "success"]
    after = ["minor_ready", "plan_major", "major_ready", "mark", "delete_delay", "sweep"]
    assert {states[name] for name in after} == {"success"}
    assert states["report"] == "failed"
    assert str(done.state) == "failed"
    found = results(bucket, done)
    requests = [json.loads(found[f"compact_minor.{n}"]["summary"]["request"]) for n in range(3)]
    assert requests == [{"plan_key": "the-plan", "batch": n} for n in range(3)]
    report = RunReport.model_validate(found["report"])
    assert report.failed == ("compact_minor_1",)
    assert "Too big." in report.to_markdown()


def test_a_dry_run_is_dry_everywhere(standins: Any, bucket: LocalBucket) -> None:
    """The form's dry run reaches every job, mapped ones too, and no other workflow is told of anything."""
    standins(plan_major={"batches": 2})
    done, states = run("events__major_compaction", dry_run=True)
    found = results(bucket, done)
    assert {task for task in found if found[task].get("dry_run")} == {"plan_major", "compact.0", "compact.1"}
    assert states["report"] == "skipped"


def test_a_repair_carries_out_the_plan_that_was_made(standins: Any, bucket: LocalBucket) -> None:
    """The form becomes the request of the plan, and what is carried out is the plan with that very digest."""
    standins(plan={"batches": 1, "result": {"summary": {"digest": "d1"}}}, repair__0={})
    block = "01HF0000000000000000000000"
    where = '{"column": "who", "op": "=", "value": "eve"}'
    form = {"kind": "drop-rows", "blocks": [block], "where": where, "reason": "wrong", "approval": False}
    done, states = run("events__repair", dry_run=False, **form)
    assert set(states.values()) == {"success"}, states
    found = results(bucket, done)
    assert json.loads(found["repair.0"]["summary"]["request"]) | {"kind": None} == RepairRequest(
        plan_key="the-plan", digest="d1"
    ).model_dump(mode="json")
    assert set(found) == {"plan", "repair.0", "mark", "sweep", "report"}


def test_a_dry_repair_asks_nobody_and_does_nothing(standins: Any, bucket: LocalBucket) -> None:
    """By default a repair only plans: nobody is asked, and no other job runs."""
    standins()
    done, states = run("events__repair", kind="partial")
    assert states["plan"] == states["approve"] == "success"
    assert states["repair"] == states["sweep"] == states["report"] == "skipped"
    found = results(bucket, done)
    assert set(found) == {"plan", "report"}
    assert found["plan"]["dry_run"]


def test_a_verification_that_finds_damage_fails_its_run(standins: Any, bucket: LocalBucket) -> None:
    """The form's wish to read every file reaches the job; what it finds fails the run, and is in its report."""
    standins(verify={"exit": 1, "result": {"error": "2 findings of damage."}})
    done, states = run("events__verify", deep=True)
    assert states == {"verify": "failed", "report": "failed"}
    report = RunReport.model_validate(results(bucket, done)["report"])
    assert "2 findings of damage." in report.to_markdown()


@pytest.fixture
def block(bucket: LocalBucket) -> Iterator[Meta]:
    """A block with rows of ann and bob, two hours old, in the stream `events`; afterwards the stream is empty again."""
    config = load(HOME / "drystone.yaml").stream("events")
    clock = ManualClock(time.time_ns() // 1_000_000 - 2 * 3_600_000)
    old = LocalBucket(HOME / "bucket", clock)
    write_record(old, "events", config)
    at = [datetime(2013, 1, 1, hour, tzinfo=UTC) for hour in range(4)]
    rows = pa.table({"who": ["ann", "bob"] * 2, "at": pa.array(at, pa.timestamp("us", "UTC"))})
    yield build_block(old, "events", config, with_source(rows, source_id(clock.now, "a")), clock)
    shutil.rmtree(HOME / "bucket" / "events")


def test_an_erasure_by_form(standins: Any, bucket: LocalBucket, block: Meta) -> None:
    """A dry run writes nothing, and its plan takes the edit for written; the real one writes it once, and a receipt."""
    standins()
    form = {"where": '{"column": "who", "op": "=", "value": "ann"}', "reason": "request 17", "approval": False}
    done, _ = run("events__erase", **form)
    assert list(bucket.list("events/.edits/")) == []
    proposed = json.loads(json.loads(bucket.get(key_of(bucket, done, "plan_rewrite")))["summary"]["request"])[
        "proposed"
    ]
    assert (proposed["reason"], proposed["predicate"]["value"]) == ("request 17", "ann")
    done, states = run("events__erase", **form, dry_run=False)
    assert {name for name, state in states.items() if state != "success"} == {"rewrite"}
    assert len(list(bucket.list("events/.edits/"))) == 1
    (item,) = bucket.list("events/.receipts/")
    receipt = Receipt.model_validate_json(bucket.get(item.key))
    assert (receipt.state, [left.block for left in receipt.left]) == ("open", [block.ulid])
    report = RunReport.model_validate(results(bucket, done)["report"])
    assert {job.task for job in report.jobs} == {
        *("plan_edit", "write_edit", "plan_rewrite", "mark", "sweep", "receipt")
    }


def test_a_wrong_erasure_fails_at_once(standins: Any, bucket: LocalBucket, block: Meta) -> None:
    """What the form cannot check fails the run, whose report says what is wrong, and no edit is written."""
    standins()
    done, states = run("events__erase", where='{"column": "age", "op": "=", "value": 1}', reason="r", dry_run=False)
    assert (states["plan_edit"], states["report"]) == ("failed", "failed")
    assert list(bucket.list("events/.edits/")) == []
    assert "there is no column age" in RunReport.model_validate(results(bucket, done)["report"]).to_markdown()


@pytest.mark.parametrize("text", ["{oops", '{"column": '])
def test_what_is_no_json_is_said_in_one_line(text: str) -> None:
    """A form's condition that cannot be parsed fails its task at once, and says where."""
    context = {"params": {"where": text, "reason": "r", "key": None}, "dag_run": None}
    with pytest.raises(AirflowFailException, match="this is no JSON"):
        erase_request(context)


def test_a_retirement_and_a_hold_by_form(standins: Any, bucket: LocalBucket, block: Meta) -> None:
    """Each form writes its edit or hold, and takes it away again, logged with the run that did it."""
    standins()
    run("events__hold", action="hold", name="fix", length="1h", reason="looking")
    assert [item.key for item in bucket.list("events/.holds/")] == ["events/.holds/fix.json"]
    _, states = run("events__hold", action="release", name="fix", reason="done")
    assert set(states.values()) == {"success"}
    assert list(bucket.list("events/.holds/")) == []
    run("events__retire", blocks=[block.ulid], reason="wrong", approval=False, dry_run=False)
    found = audit.actions(bucket, "events")
    assert [(each.what, each.outcome) for each in found] == [("hold", "done"), ("release", "done"), ("retire", "done")]
    assert all(each.run.startswith("events__") for each in found)


def key_of(bucket: LocalBucket, done: DagRun, task: str) -> str:
    """Return the key of a task's result."""
    return f"{results_prefix('events', done.dag_id, done.run_id)}{task}.json"
