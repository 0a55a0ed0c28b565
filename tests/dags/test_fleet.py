"""`drystone__fleet` and what fifty streams cost: one look at all streams, and one reading of the configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from drystone.airflow.common import configuration, streams
from drystone.airflow.fleet import DAG_ID, opener
from drystone.airflow.overviews import kept
from drystone.bucket import LocalBucket
from drystone.config.load import load
from drystone.errors import ConfigError
from drystone.testing.streams import write_record

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def bucket(config_file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalBucket]:
    """The bucket of a configuration file of its own, in which both streams have a record."""
    monkeypatch.setenv("DRYSTONE_CONFIG", str(config_file))
    found = LocalBucket(config_file.parent / "bucket")
    for stream, config in load(config_file).config.streams.items():
        write_record(found, stream, config)
    return found


def run() -> str:
    """Run the DAG; return the state of its one task."""
    dag = DagBag(dag_folder=str(ROOT / "dags/drystone_fleet.py")).dags[DAG_ID]
    assert dag.get_task("look").retries > 0
    done = dag.test()
    (task,) = done.get_task_instances()
    return str(task.state)


def test_all_streams_are_looked_at(bucket: LocalBucket, database: Path) -> None:
    """A run keeps an overview of every stream, and succeeds while nothing is wrong."""
    assert run() == "success"
    assert [kept(bucket, stream).stream for stream in ("events", "daily")] == ["events", "daily"]


def test_a_broken_stream_fails_the_run_and_no_other(bucket: LocalBucket, database: Path) -> None:
    """A stream that cannot be read fails the run, and is named; the overview of the other one is kept all the same."""
    bucket.put("events/.stream.json", b"{")
    assert run() == "failed"
    assert "events/.stream.json cannot be read" in kept(bucket, "events").error
    assert kept(bucket, "daily").error == ""


def test_a_missing_connection_is_that_of_one_stream(config_file: Path) -> None:
    """A stream whose bucket's connection is missing cannot be opened, and says which; the others can."""
    text = config_file.read_text().replace(
        "  daily:\n", "  daily:\n    bucket: s3://elsewhere\n    bucket_connection: nobody\n"
    )
    config_file.write_text(text)
    opened = opener(load(config_file))
    assert opened("events").url.startswith("file:")
    with pytest.raises(ConfigError, match="no connection 'nobody'"):
        opened("daily")


def test_the_configuration_is_read_once(bucket: LocalBucket, config_file: Path) -> None:
    """DAG files of one process share what was read, until the file changes; a file that is gone is an error again."""
    first = configuration()
    assert configuration() is first
    assert [stream.loaded for stream in streams()] == [first, first]
    config_file.write_text(config_file.read_text().replace("team-events", "other-team"))
    os.utime(config_file, ns=(1, 1))
    assert configuration().stream("events").owner == "other-team"
    config_file.unlink()
    with pytest.raises(ConfigError):
        configuration()
