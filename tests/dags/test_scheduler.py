"""What only a real Airflow shows: pools, deferral and resumption, mapping, asset events, login, and its own end.

One Airflow with all its programs serves the tests of this module; the jobs are the real ones, on a real local Spark.
"""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_of_its_own import running

import drystone
from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient, Task, wait_until

pytestmark = [pytest.mark.long, pytest.mark.scheduler, pytest.mark.timeout(400)]
FILES = ("a", "b", "c")
MONTHS = ("01", "02")
DAGS = ("events__ingest", "events__lifecycle", "events__major_compaction", "told__ingest", "told__lifecycle")
CONFIG = """
version: 1
bucket: file:bucket
spark:
  max_parallel_jobs: 2
  conf:
    spark.ui.enabled: "false"
    spark.sql.shuffle.partitions: "2"
    spark.driver.memory: 512m
    spark.driver.extraJavaOptions: -XX:+UseSerialGC -XX:TieredStopAtLevel=1
streams:
  events: &events
    labels: {dataset: events}
    time_column: at
    sort_key: [who, at]
    schema: {who: string, at: timestamp}
    times: {allow_short_delays: true, sync_delay: 12s, upload_timeout: 10s, clock_skew: 1s, delete_delay: 14s,
            read_timeout: 4s}
    ingest: {path: "in/*.csv", format: csv}
    lifecycle: {schedule: null}
  told:
    <<: *events
    lifecycle: {schedule: asset}
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AirflowHome, AirflowClient]]:
    """An Airflow with two streams, and three input files of two rows a month each."""
    folder = tmp_path_factory.mktemp("scheduler")
    (folder / "in").mkdir()
    for name in FILES:
        rows = [f"{name},2024-{month}-03T0{hour}:00:00Z" for month in MONTHS for hour in (1, 2)]
        (folder / "in" / f"{name}.csv").write_text("\n".join(["who,at", *rows]) + "\n")
    with running(folder, CONFIG, *DAGS) as found:
        yield found
        pids = children_of(found[0])
        assert len(pids) > 4
    wait_until(lambda: not children_of(found[0]), 1, "Airflow's processes are gone")


def children_of(home: AirflowHome) -> list[int]:
    """The processes whose environment says that they belong to this Airflow, this one aside."""
    wanted = f"AIRFLOW_HOME={home.folder}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != os.getpid():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    found.append(int(folder.name))
            except OSError:
                continue
    return found


def at_once(tasks: list[Task]) -> int:
    """How many of some tasks ran at the same time, at most."""
    spans = [(task.start, task.end) for task in tasks]
    return max(sum(begin <= moment < end for begin, end in spans) for moment, _ in spans)


def test_three_ingests_share_two_slots_and_wait_without_one(airflow: tuple[AirflowHome, AirflowClient]) -> None:
    """Three runs at once upload in the pool's two slots; their sensors defer, are resumed, and no row is missing."""
    home, client = airflow
    runs = {name: client.trigger("events__ingest", {"path": f"in/{name}.csv"}, f"run_{name}") for name in FILES}
    told = client.trigger("told__ingest", {"path": "in/a.csv"})
    states: dict[str, set[str | None]] = {}
    for run_id in runs.values():
        for tasks in client.follow("events__ingest", run_id, 200):
            for task in tasks:
                states.setdefault(task.task_id, set()).add(task.state)
        assert client.run("events__ingest", run_id)["state"] == "success"
    assert "deferred" in states["wait_until_ready"]
    uploads = [
        task for run in runs.values() for task in client.tasks("events__ingest", run) if task.task_id == "upload"
    ]
    assert at_once(uploads) <= 2
    assert {task.try_number for task in uploads} == {1}
    assert sum(batch.num_rows for batch in drystone.scan(f"file://{home.config_file.parent}/bucket", "events")) == 12
    assert client.wait("told__ingest", told, 100) == "success"


def test_an_ingest_starts_the_lifecycle_of_its_stream(airflow: tuple[AirflowHome, AirflowClient]) -> None:
    """The asset event of an ingest run starts the lifecycle of a stream that is configured so, and of no other."""
    _, client = airflow
    wait_until(lambda: bool(client.runs("told__lifecycle")), 30, "the lifecycle has begun")
    (run,) = client.runs("told__lifecycle")
    assert run["run_type"] == "asset_triggered"
    assert client.runs("events__lifecycle") == []


def test_batches_are_mapped_by_the_scheduler(airflow: tuple[AirflowHome, AirflowClient]) -> None:
    """A plan becomes mapped tasks with names; the run ends in a report, and rows are what they were."""
    home, client = airflow
    run_id = client.trigger("events__major_compaction", {})
    assert client.wait("events__major_compaction", run_id, 200) == "success"
    tasks = client.tasks("events__major_compaction", run_id)
    compactions = sorted((task for task in tasks if task.task_id == "compact"), key=lambda task: task.map_index)
    assert [task.map_index for task in compactions] == [0, 1]
    assert all("1 merge" in task.label for task in compactions)
    blocks = [client.xcom("events__major_compaction", run_id, "compact", map_index=n)["block_count"] for n in (0, 1)]
    assert blocks == [1, 1]
    assert sum(batch.num_rows for batch in drystone.scan(f"file://{home.config_file.parent}/bucket", "events")) == 12


def test_reports_are_for_people_who_are_logged_in(airflow: tuple[AirflowHome, AirflowClient]) -> None:
    """The link of a run's last task leads to its report: 401 without a login, the report with one."""
    _, client = airflow
    (link,) = client.call("GET", "/dags/events__ingest/dagRuns/run_a/taskInstances/publish/links")[
        "extra_links"
    ].values()
    assert page(client.url + link, "") == (401, "")
    status, text = page(client.url + link, client.token)
    assert status == 200
    assert "# events__ingest" in text
    assert page(client.url + link.replace("run_a", "nobody"), client.token) == (404, "")


def page(url: str, token: str) -> tuple[int, str]:
    """Ask for a page; return its status, and its text if it is there."""
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})  # noqa: S310
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 -- our own server
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_forms_refuse_what_is_wrong(airflow: tuple[AirflowHome, AirflowClient]) -> None:
    """A value that does not fit the form's schema is refused when the run is started, by its name."""
    _, client = airflow
    with pytest.raises(Exception, match="dry_run"):
        client.trigger("events__lifecycle", {"dry_run": "perhaps"})
