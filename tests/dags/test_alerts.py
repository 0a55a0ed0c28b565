"""The example of alerts, docs/examples/airflow_local_settings.py: Airflow loads it, and a web hook is told."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from datetime import timedelta
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow_of_its_own import ROOT, prepared
from receivers import posts_received

from drystone.airflow.fleet import DAG_ID
from drystone.bucket import LocalBucket
from drystone.testing.airflow_rest import wait_until

EXAMPLES = ROOT / "docs" / "examples"


@pytest.fixture
def _the_example() -> Iterator[None]:
    """The example's policies, as Airflow takes them from airflow_local_settings when it starts."""
    from airflow import policies, settings  # noqa: PLC0415 -- after the environment is set

    manager = settings.get_policy_plugin_manager()
    before = set(manager.get_plugins())
    found = spec_from_file_location("airflow_local_settings", EXAMPLES / "airflow_local_settings.py")
    assert found is not None
    assert found.loader is not None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    assert policies.make_plugin_from_local_settings(manager, module, set(module.__all__)) == set(module.__all__)
    yield
    for plugin in set(manager.get_plugins()) - before:
        manager.unregister(plugin)


@pytest.mark.usefixtures("_the_example")
def test_a_failed_run_is_told_once(database: Path, config_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The web hook is posted one message for a failed run, which says of which stream and what is wrong."""
    monkeypatch.setenv("DRYSTONE_CONFIG", str(config_file))
    LocalBucket(config_file.parent / "bucket").put("events/.stream.json", b"{")
    with posts_received() as (port, received):
        hook = {"conn_type": "http", "host": "127.0.0.1", "port": port, "schema": "http"}
        monkeypatch.setenv("AIRFLOW_CONN_DRYSTONE_ALERTS", json.dumps(hook))
        done = DagBag(dag_folder=str(ROOT / "dags/drystone_fleet.py")).dags[DAG_ID].test()
    assert str(done.state) == "failed"
    ((_, body),) = received
    text = json.loads(body)["text"]
    assert text.startswith("drystone__fleet, run manual__")
    assert "events: events/.stream.json cannot be read" in text


@pytest.mark.usefixtures("_the_example")
def test_an_ingest_has_a_deadline_where_its_stream_has_a_limit(
    config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A limit on a stream's lag is the deadline of its ingest; a stream without one, and every other DAG, has none."""
    monkeypatch.setenv("DRYSTONE_CONFIG", str(config_file))
    text = config_file.read_text().replace("    owner: team-events\n", "    owner: team-events\n    lag_limit: 26h\n")
    config_file.write_text(text)
    found = {}
    for file in ("ingest", "lifecycle", "fleet"):
        found |= DagBag(dag_folder=str(ROOT / f"dags/drystone_{file}.py")).dags
    deadlines = {name: dag.deadline for name, dag in found.items() if dag.deadline}
    assert deadlines.keys() == {"events__ingest"}
    (deadline,) = deadlines["events__ingest"]
    assert deadline.interval == timedelta(hours=26)


CONFIG = """
version: 1
bucket: file:bucket
streams:
  events:
    labels: {dataset: events}
    time_column: at
    sort_key: [who, at]
    schema: {who: string, at: timestamp}
    ingest: {path: "in/*.csv", format: csv}
    lifecycle: {schedule: null}
    lag_limit: 1s
"""


@pytest.mark.slow
@pytest.mark.scheduler
@pytest.mark.timeout(400)
def test_a_deadline_that_is_missed_is_told(tmp_path: Path) -> None:
    """In a real Airflow with the example, an ingest that takes longer than the stream's limit is told while it runs."""
    home = prepared(tmp_path, CONFIG)
    (home.folder / "config").mkdir(exist_ok=True)
    shutil.copy(EXAMPLES / "airflow_local_settings.py", home.folder / "config")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("who,at\na,2024-01-03T01:00:00Z\n")
    with posts_received() as (port, received), home.running() as client:
        client.set_connection("drystone_alerts", "http", host="127.0.0.1", port=port, schema="http")
        wait_until(lambda: client.has_dag("events__ingest"), 120, "events__ingest")
        client.unpause("events__ingest")
        client.trigger("events__ingest", {}, "late")
        wait_until(lambda: bool(received), 120, "the web hook is told")
    assert "events__ingest: a run has not ended 0:00:01 after it was queued." in json.loads(received[0][1])["text"]
