"""Credentials of a bucket in S3: from the connection to boto3 and the job's environment, and to nowhere else."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.connection import Connection
from airflow.utils.session import create_session
from hunt import Processes, files_with

from drystone import clock, jobs
from drystone.airflow.access import Access, access, access_to
from drystone.airflow.setup import setup
from drystone.airflow.triggers import BlocksReadyTrigger
from drystone.block.states import Times
from drystone.bucket.s3 import S3Bucket
from drystone.bucket.s3_credentials import Credentials
from drystone.config.load import load
from drystone.errors import ConfigError
from drystone.testing.s3_server import S3Server

ROOT = Path(__file__).resolve().parents[2]
URL = "s3://lake?endpoint=http://127.0.0.1:1&region=us-east-1&path_style=true"
KEYS = {"login": "AKPLANTED", "password": "planted-secret"}


@pytest.fixture(autouse=True)
def _nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's own accounts is found."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def connect(monkeypatch: pytest.MonkeyPatch, name: str, **fields: Any) -> None:
    """Make a connection that Airflow finds in its environment."""
    monkeypatch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps({"conn_type": "aws", **fields}))


def in_s3(config_file: Path, url: str, connection: str = "") -> Path:
    """Put the bucket of a configuration file into S3."""
    more = f"\nbucket_connection: {connection}" if connection else ""
    config_file.write_text(config_file.read_text().replace("bucket: file:bucket", f"bucket: {url}{more}"))
    return config_file


def test_a_secret_is_told_to_the_job_and_to_nobody_else(
    s3: S3Server,
    submit_standin: None,
    database: Path,
    config_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The job and all tasks reach the bucket; the secret is in no argument, log, template, XCom or row of Airflow's."""
    monkeypatch.setenv("DRYSTONE_CONFIG", str(in_s3(config_file, s3.url(prefix="access/secrets"))))
    monkeypatch.setenv("STANDIN", json.dumps({"upload": {"sleep": 0.5, "result": {"report": "Done."}}}))
    with create_session() as session:
        session.add(Connection("aws_default", "aws", login=s3.access_key, password=s3.secret_key))
    try:
        with Processes(s3.secret_key) as processes:
            done = DagBag(dag_folder=str(ROOT / "dags")).dags["events__ingest"].test()
    finally:
        with create_session() as session:
            session.query(Connection).filter_by(conn_id="aws_default").delete()
    assert {str(instance.state) for instance in done.get_task_instances()} == {"success"}
    assert any("drystone_upload.py" in program for program in processes.trusted)
    assert processes.told == set()
    printed = "".join(capfd.readouterr())
    assert "drystone_upload.py" in printed
    assert s3.secret_key not in printed
    bucket = S3Bucket(s3.url(prefix="access/secrets"), credentials=s3.credentials)
    written = {info.key: bucket.get(info.key).decode() for info in bucket.list("")}
    assert any(key.endswith("upload.json") for key in written)
    assert s3.secret_key not in str(written)
    # The connection's own row is encrypted; rendered templates, XComs and triggers are rows as well.
    assert files_with(s3.secret_key, database) == []


def test_a_step_reaches_the_bucket(
    s3: S3Server, database: Path, config_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that does its work itself has the credentials of the connection, as a job has."""
    url = s3.url(prefix="access/steps")
    monkeypatch.setenv("DRYSTONE_CONFIG", str(in_s3(config_file, url)))
    connect(monkeypatch, "aws_default", login=s3.access_key, password=s3.secret_key)
    conf = {"action": "hold", "name": "audit", "reason": "an audit", "dry_run": False}
    done = DagBag(dag_folder=str(ROOT / "dags")).dags["events__hold"].test(run_conf=conf)
    assert {str(instance.state) for instance in done.get_task_instances()} == {"success"}
    bucket = S3Bucket(url, credentials=s3.credentials)
    assert [info.key for info in bucket.list("events/") if "/holds/" in info.key or ".hold" in info.key]


def test_a_secret_in_an_argument_or_a_file_is_found(tmp_path: Path) -> None:
    """The two searches find what is planted: an argument of a short-lived program, and a line of a file."""
    with Processes("planted-secret") as processes:
        subprocess.run([sys.executable, "-c", "import time; time.sleep(0.5)", "planted-secret"], check=True)
    assert any("planted-secret" in arguments for arguments in processes.told)
    (tmp_path / "log").write_text("a line\nwith planted-secret in it\n")
    assert files_with("planted-secret", tmp_path) == [str(tmp_path / "log")]


def test_a_trigger_asks_for_itself(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stored of a trigger names the connection only; when it runs, it reads the bucket with the secret."""
    connect(monkeypatch, "lake", login=s3.access_key, password=s3.secret_key)
    bucket = S3Bucket(s3.url(prefix="access/trigger"), credentials=s3.credentials)
    result = jobs.JobResult(verb="upload", stream="events", run="r", ok=True, started=0, ended=0)
    bucket.put("events/.reports/r.json", result.to_json())
    now = clock.system()
    arguments: dict[str, Any] = {
        "bucket_url": bucket.url,
        "stream": "events",
        "results": ["events/.reports/r.json"],
        "times": asdict(Times(sync_delay=1, delete_delay=2)),
        "not_before": now,
        "deadline": now + 10_000,
    }
    trigger = BlocksReadyTrigger(**arguments, connection="lake")
    name, stored = trigger.serialize()
    assert (name.rpartition(".")[2], stored["connection"]) == ("BlocksReadyTrigger", "lake")
    assert s3.secret_key not in str(stored)

    async def events() -> Any:
        return [event.payload async for event in trigger.run()]

    assert asyncio.run(events()) == [{"ready": True}]


def test_credentials_come_from_the_connection(monkeypatch: pytest.MonkeyPatch, config_file: Path) -> None:
    """Keys of the file's connection, or of the stream's own; a session's token goes along."""
    connect(monkeypatch, "aws_default", **KEYS)
    connect(monkeypatch, "other", login="AKOTHER", password="s", extra={"aws_session_token": "t"})
    text = in_s3(config_file, URL).read_text().replace("  daily:\n", "  daily:\n    bucket_connection: other\n")
    config_file.write_text(text)
    loaded = load(config_file)
    assert access(loaded, "events").credentials == Credentials("AKPLANTED", "planted-secret")
    assert access(loaded, "daily").credentials == Credentials("AKOTHER", "s", "t")
    assert "planted-secret" not in repr(access(loaded, "events"))


def test_other_buckets_need_no_connection(config_file: Path) -> None:
    """A local bucket asks for none, whatever its name."""
    assert access_to(f"file://{config_file.parent}", "nobody").credentials is None


def test_without_a_connection_boto3_decides(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No connection `aws_default`, or one that says nothing of credentials, leaves it to the environment and roles."""
    assert access_to(URL, "aws_default").credentials is None
    connect(monkeypatch, "aws_default", extra={"region_name": "eu-north-1"})
    assert access_to(URL, "aws_default").credentials is None


def test_a_wrong_connection_is_an_error(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was named and is not there, or is of another kind, fails at once, with what to do."""
    with pytest.raises(ConfigError, match=r"no connection 'lake'.*Add a connection of type aws"):
        access_to(URL, "lake")
    monkeypatch.setenv("AIRFLOW_CONN_LAKE", json.dumps({"conn_type": "spark", "host": "x"}))
    with pytest.raises(ConfigError, match="'lake' is of type 'spark'"):
        access_to(URL, "lake")


def test_a_child_has_these_credentials_and_no_others() -> None:
    """What the worker itself has of keys, tokens and profiles is not mixed with those of the connection."""
    base = {"PATH": "/bin", "AWS_ACCESS_KEY_ID": "old", "AWS_SESSION_TOKEN": "old", "AWS_PROFILE": "old"}
    own = {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
    assert Access(URL, Credentials("a", "b")).environment(base) == {"PATH": "/bin", **own}
    assert Access(URL, Credentials("a", "b", "c")).environment(base)["AWS_SESSION_TOKEN"] == "c"
    assert Access(URL).environment(base) == base


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (None, "connection aws_default: missing: the workers' environment, profile or role decides"),
        ({}, "connection aws_default: no credentials: the workers' environment, profile or role decides"),
        (KEYS, "connection aws_default: credentials of an access key"),
        (
            {"extra": {"role_arn": "arn:aws:iam::1:role/r"}},
            "connection aws_default: credentials of role arn:aws:iam::1:role/r",
        ),
        ({"extra": {"profile_name": "p"}}, "connection aws_default: credentials of profile p"),
        ({"conn_type": "http"}, "connection aws_default: of type http: jobs fail until it is one of type aws"),
    ],
)
def test_setup_says_what_it_found(
    database: Path, config_file: Path, monkeypatch: pytest.MonkeyPatch, fields: dict[str, Any] | None, line: str
) -> None:
    """`drystone airflow setup` says for streams in S3 where the credentials come from, and no secret."""
    if fields is not None:
        connect(monkeypatch, "aws_default", **fields)
    lines = setup(load(in_s3(config_file, URL)))
    assert lines[-1] == line
    assert "planted-secret" not in str(lines)


def test_setup_names_a_connection_that_is_missing(database: Path, config_file: Path) -> None:
    """A connection that the configuration names, and that is not there, will make jobs fail: it says so."""
    lines = setup(load(in_s3(config_file, URL, "lake")))
    assert lines[-1] == "connection lake: MISSING: jobs fail until there is one of type aws"
