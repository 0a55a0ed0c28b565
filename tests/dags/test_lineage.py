"""OpenLineage: what jobs read and wrote, as a real receiver gets it from the provider's own listener."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.listener import get_listener_manager
from jsonschema import Draft202012Validator
from openlineage_event import RUN_EVENT
from receivers import posts_received

from drystone.airflow.lineage import Flow, Name, flow, openlineage
from drystone.config.load import Loaded, load
from drystone.jobs import JobResult

ROOT = Path(__file__).resolve().parents[2]
Event = dict[str, Any]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch, database: Path) -> Iterator[list[Event]]:
    """What OpenLineage's listener sends, as it does where a transport is configured; filled when a run has ended."""
    from airflow.providers.openlineage.plugins.listener import OpenLineageListener  # noqa: PLC0415 -- it reads settings

    manager = get_listener_manager()
    with posts_received() as (port, received):
        transport = {"type": "http", "url": f"http://127.0.0.1:{port}", "endpoint": "lineage"}
        monkeypatch.setenv("AIRFLOW__OPENLINEAGE__TRANSPORT", json.dumps(transport))
        monkeypatch.setenv("AIRFLOW__OPENLINEAGE__NAMESPACE", "drystone-test")
        listener = OpenLineageListener()
        manager.add_listener(listener)
        try:
            yield _Received(received)
        finally:
            manager.pm.unregister(listener)


class _Received(list[Event]):
    """The events that were posted until now."""

    def __init__(self, posts: list[tuple[str, bytes]]) -> None:
        super().__init__()
        self._posts = posts

    def of(self, task: str) -> dict[str, Event]:
        """Return the events of a task by their type."""
        found = [json.loads(body) for path, body in self._posts if path == "/lineage"]
        return {each["eventType"]: each for each in found if each["job"]["name"] == task}


def datasets(event: Event, side: str) -> list[tuple[str, str]]:
    """Return the names of the datasets that an event names."""
    return [(each["namespace"], each["name"]) for each in event[side]]


def run(file: str, dag_id: str, **conf: Any) -> None:
    """Run the jobs of a DAG; the tasks around them are taken for done."""
    dag = DagBag(dag_folder=str(ROOT / "dags" / file)).dags[dag_id]
    for task in dag.tasks:
        task.retries = 0
    dag.test(run_conf=conf, mark_success_pattern="wait_until_ready|publish|ready|report")


def check(event: Event) -> None:
    """Fail if an event is not of the shape that OpenLineage specifies."""
    Draft202012Validator(RUN_EVENT, format_checker=Draft202012Validator.FORMAT_CHECKER).validate(event)


def test_ingest_tells_what_it_read_and_wrote(
    events: Any, submit_standin: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The upload's events name the folder of its files and the stream, with columns, rows and bytes."""
    result = {"result": {"summary": {"rows": 7, "bytes": 900}}}
    monkeypatch.setenv("STANDIN", json.dumps({"upload": result}))
    run("drystone_ingest.py", "events__ingest")
    found = events.of("events__ingest.upload")
    for event in found.values():
        check(event)
    assert {"START", "COMPLETE"} & found.keys() == {"START", "COMPLETE"}
    done, home = found["COMPLETE"], Path(os.environ["DRYSTONE_CONFIG"]).parent
    assert datasets(done, "inputs") == [("file", f"{home}/in")]
    assert datasets(done, "outputs") == [("file", f"{home}/bucket/events")]
    (output,) = done["outputs"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert output["outputFacets"]["outputStatistics"]["size"] == 900
    assert [each["name"] for each in output["facets"]["schema"]["fields"]] == ["who", "at"]
    assert done["job"]["namespace"] == "drystone-test"


def test_compaction_reads_and_writes_its_stream(
    events: Any, submit_standin: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch of a compaction names its stream on both sides; a batch that failed does, too, as a failure."""
    todo = {"plan_major": {"batches": 2}, "compact.1": {"exit": 1, "result": {"error": "Too big."}}}
    monkeypatch.setenv("STANDIN", json.dumps(todo))
    run("drystone_major_compaction.py", "events__major_compaction")
    found = events.of("events__major_compaction.compact")
    assert {"COMPLETE", "FAIL"} <= found.keys()
    stream = ("file", f"{Path(os.environ['DRYSTONE_CONFIG']).parent}/bucket/events")
    for kind in ("COMPLETE", "FAIL"):
        check(found[kind])
        assert datasets(found[kind], "inputs") == datasets(found[kind], "outputs") == [stream]


def test_a_dry_run_moves_no_data(config_file: Path) -> None:
    """The lineage of a dry run names nothing that it read or wrote."""
    loaded = load(config_file)
    result = JobResult(verb="upload", stream="events", run="r", ok=True, started=1, ended=2)
    lineage = openlineage(loaded, "upload", {}, result)
    assert (len(lineage.inputs), len(lineage.outputs)) == (1, 1)
    dry = openlineage(loaded, "upload", {}, result.model_copy(update={"dry_run": True}))
    assert (dry.inputs, dry.outputs) == ([], [])


KAFKA = """
  {name}:
    labels: {{dataset: {name}}}
    ingest: {{kind: kafka, group: backup, bootstrap_servers: "one:9092,b:9092", topics: logs, export: {{prefix: out}}}}
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    """Streams of files and of Kafka in buckets of every kind."""
    file = tmp_path / "drystone.yaml"
    files = "    labels: {dataset: f}\n    time_column: at\n    sort_key: [at]\n    ingest: {format: csv, path: %s}\n"
    text = f"version: 1\nbucket: 's3://data/deep/er?endpoint=http://secret@x'\nstreams:\n  a:\n{files % '/x/a.csv'}"
    text += f"  b:\n    bucket: s3://flat\n{files % 's3://in/raw/%Y/*.csv'}{KAFKA.format(name='k')}"
    file.write_text(text.replace("http://secret@x", "http://127.0.0.1:1"))
    return load(file)


def test_names_are_those_of_openlineage(loaded: Loaded) -> None:
    """A bucket's scheme and authority are the namespace, its path and the stream the name; no setting is in either."""
    a, b, k = Name("s3://data", "deep/er/a"), Name("s3://flat", "b"), Name("s3://data", "deep/er/k")
    assert flow(loaded, "a", "upload", {}) == Flow((Name("file", "/x/a.csv"),), (a,), a)
    assert flow(loaded, "a", "upload", {"path": "/y/*/z.csv"}).inputs == (Name("file", "/y"),)
    assert flow(loaded, "b", "upload", {}) == Flow((Name("s3://in", "raw"),), (b,), b)
    assert flow(loaded, "b", "compact", {}) == Flow((b,), (b,), b)
    assert flow(loaded, "k", "upload", {}) == Flow((Name("kafka://one:9092", "logs"),), (k,), k)
    assert flow(loaded, "k", "export", {}) == Flow((k,), (Name("s3://data", "deep/er/out"),))
    assert flow(loaded, "a", "verify", {}) == Flow((a,))
    for verb in ("detect", "mark", "sweep"):
        assert flow(loaded, "a", verb, {}) == Flow()  # type: ignore[arg-type] # they are verbs


def test_the_schema_refuses_what_is_no_event() -> None:
    """An event without a run's id, and a facet without its producer, are refused."""
    facet = {"_producer": "https://p", "_schemaURL": "https://s"}
    event: Event = {
        "eventType": "START", "eventTime": "2024-01-01T00:00:00Z", "producer": "https://p", "schemaURL": "https://s",
        "run": {"runId": "00000000-0000-0000-0000-000000000000", "facets": {"x": facet}},
        "job": {"namespace": "n", "name": "j"}, "inputs": [], "outputs": [],
    }  # fmt: skip
    check(event)
    validator = Draft202012Validator(RUN_EVENT)
    assert not validator.is_valid(event | {"run": {}})
    assert not validator.is_valid(event | {"outputs": [{"namespace": "n", "name": "d", "facets": {"x": {}}}]})
    assert not validator.is_valid(event | {"eventType": "DONE"})
