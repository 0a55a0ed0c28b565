"""Every job is killed in its middle, with SIGKILL, and its DAG is run again: nothing else needs to be done."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import flights
import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import DagBag
from flight_streams import Flights, make_stream
from kills import killed

from drystone.block.states import State
from drystone.reader import look
from drystone.timeline.timeline import states

ROOT = Path(__file__).resolve().parents[2]


def count(stream: Flights, name: str) -> int:
    """Return how many blocks of the stream have this file now."""
    return len(list((stream.folder / "bucket" / "flights").glob(f"0*/{name}")))


def run(dag_id: str) -> dict[str, str | None]:
    """Run a DAG once, without retries; return each task's state."""
    dag = DagBag(dag_folder=str(ROOT / "dags")).dags[dag_id]
    for task in dag.tasks:
        task.retries = 0
    done = dag.test()
    return {task.task_id: task.state for task in done.get_task_instances()}


def survives(stream: Flights, dag_id: str, verb: str, middle: Callable[[], bool]) -> dict[str, str | None]:
    """Run the DAG while its job `verb` is killed as soon as `middle` holds; the run must have failed."""
    with killed(verb, stream.config, middle):
        found = run(dag_id)
    assert "failed" in found.values(), found
    return found


def assert_final(stream: Flights, blocks: int) -> None:
    """Only whole, healthy, visible blocks are left, as many as there are months, with every row once."""
    view = look(stream.bucket, "flights")
    found = states(view.snapshot, view.timeline, view.record.rules)
    assert list(found.values()) == [State.HEALTHY] * blocks, found
    assert not view.timeline.problems
    assert stream.read() == stream.truth


def kill_every_job(stream: Flights, sources: int, months: int) -> None:
    """Kill upload, compaction, marking and hard delete, one after the other, and run the DAG again each time."""
    survives(stream, "flights__ingest", "upload", lambda: count(stream, "meta.json") >= sources // 5)
    assert 0 < count(stream, "meta.json") < sources, "killed in the middle"
    assert set(run("flights__ingest").values()) == {"success"}
    assert stream.read() == stream.truth

    # A compaction that dies stops nothing else: the same run goes on to marking, and is killed there again.
    before = count(stream, "meta.json")
    with killed("compact", stream.config, lambda: count(stream, "meta.json") > before + 2):
        survives(stream, "flights__lifecycle", "mark", lambda: count(stream, "deletion-mark.json") > 2)
    marks, blocks = count(stream, "deletion-mark.json"), count(stream, "meta.json")
    assert 0 < marks < blocks - months, "killed in the middle"
    assert stream.read() == stream.truth

    survives(stream, "flights__lifecycle", "sweep", lambda: count(stream, "meta.json") < blocks - 2)
    assert months < count(stream, "meta.json") < blocks, "killed in the middle"
    assert stream.read() == stream.truth

    assert "failed" not in run("flights__lifecycle").values()
    assert_final(stream, months)


@pytest.fixture
def connection(monkeypatch: pytest.MonkeyPatch, database: Path) -> None:
    """Airflow's connection to a local Spark."""
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[*]"}))


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, connection: None) -> Callable[[pa.Table], Flights]:
    """A function that makes the stream whose DAGs are run."""

    def stream(data: pa.Table) -> Flights:
        made = make_stream(tmp_path, data)
        monkeypatch.setenv("DRYSTONE_CONFIG", str(made.config))
        return made

    return stream


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_every_job_killed_in_january(make: Callable[[pa.Table], Flights]) -> None:
    """Whichever job is killed in its middle, running its DAG again leads to the same rows in the same clean bucket."""
    kill_every_job(make(flights.month(flights.load(), 1)), sources=93, months=1)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1800)
def test_every_job_killed_over_the_year(make: Callable[[pa.Table], Flights]) -> None:
    """The same holds for all flights of the year: 1,098 sources in 13 months."""
    kill_every_job(make(flights.load()), sources=1098, months=13)
