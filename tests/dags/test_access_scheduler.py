"""A stream in S3 under a real Airflow: the secret of its connection is in nothing that anybody can look at."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow_of_its_own import prepared
from hunt import Processes, files_with

import drystone
from drystone.airflow.runs import run_name
from drystone.bucket.s3 import S3Bucket
from drystone.testing.airflow_rest import AirflowClient, AirflowError, Task, wait_until
from drystone.testing.s3_server import S3Server

pytestmark = [pytest.mark.slow, pytest.mark.scheduler, pytest.mark.timeout(900)]
DAG = "events__ingest"
CONFIG = """
version: 1
bucket: {url}
spark:
  conf:
    spark.ui.enabled: "false"
    spark.driver.memory: 512m
    spark.driver.extraJavaOptions: -XX:+UseSerialGC -XX:TieredStopAtLevel=1
streams:
  events:
    labels: {{dataset: events}}
    time_column: at
    sort_key: [who, at]
    schema: {{who: string, at: timestamp}}
    times: {{allow_short_delays: true, sync_delay: 25s, upload_timeout: 20s, clock_skew: 1s, delete_delay: 40s,
            read_timeout: 30s}}
    ingest: {{path: "in/*.csv", format: csv}}
    lifecycle: {{schedule: null}}
"""


def whole_log(client: AirflowClient, run_id: str, task: Task) -> str:
    """Return all that the REST API has of a task's log, details of exceptions included."""
    path = f"/dags/{DAG}/dagRuns/{run_id}/taskInstances/{task.task_id}/logs/{task.try_number}"
    return json.dumps(client.call("GET", f"{path}?map_index=-1&full_content=true"))


def answers(client: AirflowClient, run_id: str, tasks: list[Task]) -> Iterator[str]:
    """Yield all that the REST API and the pages of reports tell of a run, and of connections."""
    run = f"/dags/{DAG}/dagRuns/{run_id}"
    paths = ["/connections", "/connections/aws_default", "/dags", f"/dags/{DAG}/details", f"/dagSources/{DAG}", run]
    paths += ["/eventLogs?limit=1000", "/plugins", "/pools", "/variables", "/assets/events", "/importErrors"]
    paths += [f"{run}/taskInstances", "/jobs", "/providers"]
    for task in tasks:
        path = f"{run}/taskInstances/{task.task_id}"
        paths += [path, f"{path}/tries", f"{path}/dependencies", f"{path}/xcomEntries", f"{path}/links"]
        for entry in client.call("GET", f"{path}/xcomEntries")["xcom_entries"]:
            paths.append(f"{path}/xcomEntries/{entry['key']}?deserialize=true")
        yield whole_log(client, run_id, task)
    for path in paths:
        yield json.dumps(client.call("GET", path))


def report_page(client: AirflowClient, run_id: str) -> tuple[int, str]:
    """Return the status and text of the page of a run's report."""
    url = f"{client.url}/drystone/reports/events/{run_name(DAG, run_id)}"
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {client.token}"})  # noqa: S310 -- ours
    try:
        with urllib.request.urlopen(request) as answer:  # noqa: S310 -- ours
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_nobody_is_shown_the_secret(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Worker, job and triggerer reach the bucket; REST, logs, files, processes and the bucket itself hold no secret."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("who,at\na,2024-01-03T01:00:00Z\nb,2024-01-03T02:00:00Z\n")
    url = s3.url(prefix="access/scheduler")
    home = prepared(tmp_path, CONFIG.format(url=url))
    with home.running() as client, Processes(s3.secret_key) as processes:
        client.set_connection("aws_default", "aws", login=s3.access_key, password=s3.secret_key)
        wait_until(lambda: client.has_dag(DAG), 120, DAG)
        client.unpause(DAG)
        run_id = client.trigger(DAG, {}, "shown")
        states = set()
        tasks: list[Task] = []
        for tasks in client.follow(DAG, run_id, 600):
            states |= {(task.task_id, task.state) for task in tasks}
        logs = "\n".join(client.log(DAG, run_id, task) for task in tasks)
        assert client.run(DAG, run_id)["state"] == "success", logs
        assert ("wait_until_ready", "deferred") in states
        told = list(answers(client, run_id, tasks))
        status, page = report_page(client, run_id)
    assert len(told) > 20
    assert any(s3.access_key in text for text in told)
    assert [text for text in [*told, page] if s3.secret_key in text] == []
    # The api-server was given no credentials: it takes those of the connection, as tasks do.
    assert status == 200
    assert "| upload | upload | yes |" in page
    assert processes.told == set()
    assert any("drystone_upload.py" in program for program in processes.trusted)
    assert files_with(s3.secret_key, tmp_path) == []
    bucket = S3Bucket(url, credentials=s3.credentials)
    assert all(s3.secret_key.encode() not in bucket.get(info.key) for info in bucket.list(""))
    assert sum(batch.num_rows for batch in drystone.scan(bucket, "events")) == 2


def test_a_wrong_secret_fails_at_once_with_what_to_do(s3: S3Server, tmp_path: Path) -> None:
    """A connection whose secret the store refuses fails the task without retries; the log says what to check."""
    home = prepared(tmp_path, CONFIG.format(url=s3.url(prefix="access/wrong")))
    with home.running() as client:
        client.set_connection("aws_default", "aws", login=s3.access_key, password="not-the-secret")
        wait_until(lambda: client.has_dag(DAG), 120, DAG)
        client.unpause(DAG)
        run_id = client.trigger(DAG, {}, "wrong")
        assert client.wait(DAG, run_id, 300) == "failed"
        (upload,) = [task for task in client.tasks(DAG, run_id) if task.task_id == "upload"]
        assert upload.try_number == 1
        assert "its credentials are wrong" in whole_log(client, run_id, upload)
    with pytest.raises(AirflowError):
        client.health()
