"""The example of alerts, docs/examples/airflow_local_settings.py: Airflow loads it, and a web hook is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from airflow_of_its_own import ROOT, prepared
from receivers import posts_received

from drystone.bucket import LocalBucket
from drystone.testing.airflow_rest import wait_until

EXAMPLES = ROOT / "docs" / "examples"
PROGRAM = """
import sys
from airflow.dag_processing.dagbag import DagBag
bag = DagBag(dag_folder=sys.argv[1])
assert not bag.import_errors, bag.import_errors
for dag in bag.dags.values():
    for deadline in dag.deadline or ():
        print("deadline", dag.dag_id, deadline.interval.total_seconds(), deadline.callback.path)
bag.dags[sys.argv[2]].test()
"""


def connection(port: int) -> str:
    """The connection to a web hook on this machine."""
    return json.dumps({"conn_type": "http", "host": "127.0.0.1", "port": port, "schema": "http"})


def run(file: str, dag_id: str, config_file: Path, port: int) -> list[str]:
    """Run a DAG in an Airflow that loads the example; return what it printed of deadlines."""
    environment = os.environ | {
        "PYTHONPATH": str(EXAMPLES),
        "DRYSTONE_CONFIG": str(config_file),
        "AIRFLOW_CONN_DRYSTONE_ALERTS": connection(port),
    }
    command = [sys.executable, "-c", PROGRAM, str(ROOT / "dags" / file), dag_id]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("deadline")]


def test_a_failed_run_is_told_once(database: Path, config_file: Path) -> None:
    """The web hook is posted one message for a failed run, which says of which stream and what is wrong."""
    LocalBucket(config_file.parent / "bucket").put("events/.stream.json", b"{")
    with posts_received() as (port, received):
        run("drystone_fleet.py", "drystone__fleet", config_file, port)
    ((_, body),) = received
    text = json.loads(body)["text"]
    assert text.startswith("drystone__fleet, run manual__")
    assert "events: events/.stream.json cannot be read" in text


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
