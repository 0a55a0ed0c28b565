"""Rules that every DAG of the repository follows, checked on the DAGs that a configuration of two streams gives."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk import DAG
from airflow.sdk.exceptions import ParamValidationError
from airflow.serialization.serialized_objects import DagSerialization
from jsonschema import Draft202012Validator

from drystone.airflow.fleet import DAG_ID
from drystone.airflow.pools import SPARK_POOL, remover_pool
from drystone.airflow.replay import replay_request
from drystone.jobs import ReplayRequest

ROOT = Path(__file__).resolve().parents[2]
STREAMS = ("events", "daily")
WORKFLOWS = ("ingest", "lifecycle", "major_compaction", "repair", "verify", "erase", "retention", "retire", "hold")
BY_FORM = ("repair", "erase", "retire")
"""What a person starts, and what takes rows away."""


@pytest.fixture(scope="module")
def bag() -> DagBag:
    """All DAGs of the folder dags/, as Airflow's DAG processor loads them."""
    return DagBag(dag_folder=str(ROOT / "dags"))


def of_streams(bag: DagBag) -> list:
    """Every DAG of a stream, which is every one but the fleet's."""
    return [dag for dag in bag.dags.values() if dag.dag_id != DAG_ID]


def all_tasks(bag: DagBag) -> list:
    """Every task of every DAG."""
    return [task for dag in bag.dags.values() for task in dag.tasks]


def test_every_file_is_imported_and_gives_a_dag_per_stream(bag: DagBag) -> None:
    """Each DAG file imports without an error, and makes its workflow for each stream, or the one of the fleet."""
    assert bag.import_errors == {}
    assert set(bag.dags) == {f"{stream}__{workflow}" for stream in STREAMS for workflow in WORKFLOWS} | {DAG_ID}


def test_dag_files_only_hand_over(bag: DagBag) -> None:
    """A file in dags/ is a docstring, an import and a hand-over: what it does is in the library."""
    for file in (ROOT / "dags").glob("*.py"):
        assert len(file.read_text().splitlines()) <= 10, file


def test_parsing_loads_nothing_heavy() -> None:
    """Parsing DAG files imports neither Spark nor Arrow nor boto3, so that every task begins quickly."""
    code = (
        f"import sys, json; sys.path.insert(0, {str(ROOT / 'dags')!r})\n"
        f"import {', '.join(f'drystone_{name}' for name in (*WORKFLOWS, 'backfill', 'replay', 'fleet'))}\n"
        "print(json.dumps(sorted(sys.modules.keys() & {'pyspark', 'pyarrow', 'numpy', 'pandas', 'boto3'})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1]) == []


def test_a_wrong_configuration_is_the_import_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow shows what is wrong with the configuration file as the import error of the DAG files."""
    file = tmp_path / "wrong.yaml"
    file.write_text("version: 1\nbucket: file:b\nstreams: {}\n")
    monkeypatch.setenv("DRYSTONE_CONFIG", str(file))
    bag = DagBag(dag_folder=str(ROOT / "dags" / "drystone_ingest.py"))
    (error,) = bag.import_errors.values()
    assert "wrong.yaml: streams" in error


def test_dags_say_what_they_are_and_whose(bag: DagBag) -> None:
    """Every DAG has documentation, the tags of its stream and workflow, and its tasks belong to the stream's owner."""
    owners = {"events": "team-events", "daily": "drystone"}
    for dag in of_streams(bag):
        stream, workflow = dag.dag_id.split("__")
        assert dag.doc_md is not None, dag.dag_id
        assert f"`{stream}`" in dag.doc_md
        assert dag.tags == {"drystone", stream, workflow}
        assert {task.owner for task in dag.tasks} == {owners[stream]}


def test_nothing_runs_by_accident_or_twice(bag: DagBag) -> None:
    """No DAG catches up on the past by itself, and what removes runs once at a time."""
    for dag in bag.dags.values():
        assert not dag.catchup
        assert dag.max_active_runs == (16 if dag.dag_id.endswith("__ingest") else 1)


def test_tasks_are_bounded(bag: DagBag) -> None:
    """Every task is tried again a few times, ever more slowly, and is stopped when it takes too long."""
    for task in all_tasks(bag):
        assert 1 <= task.retries <= 5, task
        assert task.retry_exponential_backoff > 1, task
        assert task.max_retry_delay.total_seconds() <= 3600, task
        assert 0 < task.execution_timeout.total_seconds() <= 6 * 3600, task


def test_spark_jobs_wait_in_pools(bag: DagBag) -> None:
    """Spark jobs share one pool; what marks, deletes and repairs has the remover's pool of its stream instead."""
    for dag in of_streams(bag):
        stream = dag.dag_id.split("__")[0]
        pools = {task.task_id: task.pool for task in dag.tasks if "Spark" in task.task_type}
        assert pools or dag.dag_id.endswith("__hold")
        for task_id, pool in pools.items():
            removes = task_id in {"mark", "sweep"} or dag.dag_id.endswith("__repair")
            assert pool == (remover_pool(stream) if removes else SPARK_POOL)


def test_sensors_defer_and_give_up(bag: DagBag) -> None:
    """Every sensor is one that defers, takes no Spark slot, and gives up after less than an hour and a half."""
    sensors = [task for task in all_tasks(bag) if task._is_sensor]
    assert {task.task_type for task in sensors} == {"BlocksReadySensor", "DeleteDelaySensor"}
    for sensor in sensors:
        assert hasattr(type(sensor), "conclude")
        assert sensor.mode == "poke"
        assert sensor.pool == "default_pool"
        assert 600 <= sensor.timeout <= 5400


def test_forms_explain_and_check_themselves(bag: DagBag) -> None:
    """Every param has a title, a description and a JSON Schema that its default meets; each DAG can be run dry."""
    for dag in of_streams(bag):
        assert "dry_run" in dag.params, dag.dag_id
        for name in dag.params:
            param = dag.params.get_param(name)
            schema = param.schema
            assert schema["title"], name
            assert param.description, name
            Draft202012Validator.check_schema(schema)
            Draft202012Validator(schema).validate(param.value)
    for wrong in ("yes", 1, None):
        assert not Draft202012Validator(bag.dags["events__lifecycle"].params.get_param("dry_run").schema).is_valid(
            wrong
        )


def test_every_job_takes_dry_run_from_the_form(bag: DagBag) -> None:
    """Each Spark task and each step of each DAG is told by the form whether it only shows its plan."""
    for task in all_tasks(bag):
        if "Spark" in task.task_type or "Step" in task.task_type:
            given = task.partial_kwargs["plan_only"] if task.is_mapped else task.plan_only
            assert given == "{{ params.dry_run }}", task


def test_mapped_tasks_are_named(bag: DagBag) -> None:
    """Tasks that are mapped over batches show the batch's label in place of a number."""
    mapped = [task for task in all_tasks(bag) if task.is_mapped]
    assert {task.task_id for task in mapped} == {"compact_minor", "compact_major", "compact", "repair", "rewrite"}
    assert all(task.map_index_template for task in mapped)


def test_dags_survive_serialization(bag: DagBag) -> None:
    """What the scheduler reads back from its database has the tasks and the order of what was written."""
    for dag in bag.dags.values():
        again = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        assert edges(again) == edges(dag)


def edges(dag: DAG) -> dict[str, set[str]]:
    """Each task with the tasks that follow it."""
    return {task.task_id: set(task.downstream_task_ids) for task in dag.tasks}


def test_the_lifecycle_is_one_chain(bag: DagBag) -> None:
    """The lifecycle's tasks come in the order of the design."""
    order = "plan_minor compact_minor minor_ready plan_major compact_major major_ready mark delete_delay sweep report"
    names = order.split()
    chain = edges(bag.dags["events__lifecycle"])
    assert chain == {name: {follower} for name, follower in pairwise(names)} | {"report": set()}


def test_a_repair_asks_before_it_acts(bag: DagBag) -> None:
    """A repair's plan comes first, then a person's yes, which a day's silence does not give; by default it is dry."""
    dag = bag.dags["events__repair"]
    order = ["plan", "approve", "repair", "ready", "mark", "delete_delay", "sweep", "report"]
    assert edges(dag) == {name: {follower} for name, follower in pairwise(order)} | {
        "plan": {"approve", "repair"},
        "report": set(),
    }
    approve = dag.get_task("approve")
    assert (approve.defaults, approve.response_timeout.total_seconds()) == (["Reject"], 86_400)
    assert dag.params["dry_run"] is True
    assert dag.params["approval"] is True


def test_a_backfill_asks_before_it_acts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of parsed streams from Kafka only: a plan, a person's yes, the mapped work; by default it is dry."""
    (tmp_path / "drystone.yaml").write_text(_KAFKA)
    monkeypatch.setenv("DRYSTONE_CONFIG", str(tmp_path / "drystone.yaml"))
    found = DagBag(dag_folder=str(ROOT / "dags" / "drystone_backfill.py"))
    assert found.import_errors == {}
    (dag,) = found.dags.values()
    assert dag.dag_id == "flights__backfill"
    order = ["plan", "approve", "backfill", "ready", "report"]
    assert edges(dag) == {name: {follower} for name, follower in pairwise(order)} | {
        "plan": {"approve", "backfill"},
        "report": set(),
    }
    assert dag.get_task("backfill").map_index_template
    assert dag.params["dry_run"] is True
    assert dag.params["approval"] is True


def test_a_replay_is_asked_for_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of streams that keep messages: one job and its report, dry by default; a form must say which, and where to.

    Not of dead letters that no stream's ingest makes: of these nobody knows where they came from.
    """
    (tmp_path / "drystone.yaml").write_text(_KAFKA)
    monkeypatch.setenv("DRYSTONE_CONFIG", str(tmp_path / "drystone.yaml"))
    found = DagBag(dag_folder=str(ROOT / "dags" / "drystone_replay.py"))
    assert found.import_errors == {}
    assert set(found.dags) == {"raw__replay", "dead__replay"}
    for dag in found.dags.values():
        assert edges(dag) == {"replay": {"report"}, "report": set()}
        assert edges(DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))) == edges(dag)
        assert (dag.get_task("replay").verb, dag.get_task("replay").pool) == ("replay", SPARK_POOL)
        assert dag.max_active_runs == 1
        asked = {"offsets": ["flights:0:1-9", "flights:1"], "to": "again"}
        form = form_of(dag, asked)
        assert form["dry_run"] is True
        request = ReplayRequest.model_validate(replay_request({"params": form}))
        assert request == ReplayRequest(offsets=("flights:0:1-9", "flights:1"), to="again")
        for wrong in ({"to": "again"}, {"offsets": ["flights:0"]}, asked | {"offsets": ["flights"]}):
            with pytest.raises(ParamValidationError):
                form_of(dag, wrong)


def form_of(dag: DAG, given: dict[str, object]) -> dict[str, object]:
    """What a run is started with, as Airflow checks it."""
    form = copy.deepcopy(dag.params)
    form.update(given)
    return form.validate()


_KAFKA = """
version: 1
bucket: file:bucket
streams:
  raw:
    labels: {stream: raw}
    ingest: {kind: kafka, group: backup, bootstrap_servers: "127.0.0.1:1", topics: flights}
  flights:
    labels: {stream: flights}
    schema: {at: timestamp}
    time_column: at
    sort_key: [at]
    ingest:
      kind: kafka
      group: partition
      bootstrap_servers: "127.0.0.1:1"
      topics: flights
      dead_letters: dead
      parser: {format: json}
  dead:
    labels: {stream: dead}
    ingest: {kind: dead_letters}
  left:
    labels: {stream: left}
    ingest: {kind: dead_letters}
"""


def test_what_takes_rows_away_is_dry_unless_told(bag: DagBag) -> None:
    """A form with which a person takes rows away shows its plan first; what runs by itself cannot."""
    for stream in STREAMS:
        for workflow in WORKFLOWS:
            assert bag.dags[f"{stream}__{workflow}"].params["dry_run"] is (workflow in BY_FORM), workflow


def test_an_edit_is_written_before_anything_is_rewritten(bag: DagBag) -> None:
    """An erasure and a retirement begin with the edit, and end with what the lifecycle does to superseded blocks."""
    removal = ["mark", "delete_delay", "sweep"]
    rewrite = ["plan_rewrite", "rewrite", "rewritten"]
    chains = {
        "erase": ["plan_edit", "approve", "write_edit", *rewrite, *removal, "receipt", "report"],
        "retire": ["plan_edit", "approve", "retire", *rewrite, *removal, "report"],
        "retention": ["retain", *removal, "report"],
        "hold": ["act", "report"],
    }
    for workflow, order in chains.items():
        chain = edges(bag.dags[f"events__{workflow}"])
        assert chain == {name: {follower} for name, follower in pairwise(order)} | {"report": set()}, workflow
    assert bag.dags["events__hold"].get_task("act").pool == remover_pool("events")


def test_retention_runs_daily_where_there_is_one(bag: DagBag) -> None:
    """A stream that keeps rows for ever has its retention only by form."""
    assert type(bag.dags["events__retention"].timetable).__name__ == "NullTimetable"
    assert "@daily" in repr(bag.dags["daily__retention"].schedule)


def test_schedules_follow_the_configuration(bag: DagBag) -> None:
    """A stream's ingest has data intervals if it is scheduled; its lifecycle follows the ingest's asset, or nobody."""
    assert type(bag.dags["daily__ingest"].timetable).__name__ == "CronDataIntervalTimetable"
    assert bag.dags["daily__ingest"].start_date.isoformat() == "2013-01-01T00:00:00+00:00"
    assert type(bag.dags["events__ingest"].timetable).__name__ == "NullTimetable"
    assert type(bag.dags["daily__lifecycle"].timetable).__name__ == "NullTimetable"
    assert "events.ingested" in repr(bag.dags["events__lifecycle"].timetable.asset_condition)
