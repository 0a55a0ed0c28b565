"""Whole DAG runs with `dag.test()`: what flows between tasks, with stand-ins for spark-submit and the jobs.

Real ones run under the real scheduler, in test_scheduler.py.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.asset import AssetEvent
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session
from sqlalchemy import select

from drystone.airflow.run_report import RunReport
from drystone.airflow.runs import results_prefix
from drystone.bucket import LocalBucket

ROOT = Path(__file__).resolve().parents[2]


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
    assert json.loads(found["upload"]["summary"]["request"]) == {"interval": None, "path": "in/x.csv"}
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
