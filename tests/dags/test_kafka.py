"""The ingest DAG of a stream from Kafka, and what it does for the stream of its dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from airflow.sdk.exceptions import AirflowSkipException

from drystone import jobs
from drystone.airflow import assets, ingest
from drystone.airflow.dead_letters import DeadLettersOperator
from drystone.airflow.readiness import BlockWatch
from drystone.block.states import Times
from drystone.bucket import LocalBucket

BLOCKS = ("01HF7YAT00YYB4D46QAS3VYE2D", "01HF7YAT00YYB4D46QAS3VYE2E")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A backup stream, one that parses, and its dead letters."""
    kafka = {"kind": "kafka", "bootstrap_servers": "127.0.0.1:1", "topics": "flights"}
    parsed = {
        "labels": {"a": "b"},
        "time_column": "at",
        "sort_key": ["at"],
        "schema": {"at": "timestamp"},
        "ingest": {**kafka, "group": "partition", "dead_letters": "dead", "parser": {"format": "json"}},
    }
    streams = {
        "raw": {"labels": {"a": "b"}, "ingest": {**kafka, "group": "backup", "schedule": "@hourly"}},
        "flights": parsed,
        "dead": {"labels": {"a": "b"}, "ingest": {"kind": "dead_letters"}},
    }
    file = tmp_path / "drystone.yaml"
    file.write_text(yaml.safe_dump({"version": 1, "bucket": "file:bucket", "streams": streams}))
    monkeypatch.setenv("DRYSTONE_CONFIG", str(file))
    return file


@pytest.mark.usefixtures("config")
def test_each_stream_from_kafka_has_its_dag() -> None:
    """Dead letters have none of their own; who parses waits for them and tells of them before it reports."""
    dags = ingest.dags()
    assert set(dags) == {"raw__ingest", "flights__ingest"}
    assert set(dags["raw__ingest"].task_ids) == {"upload", "wait_until_ready", "publish"}
    flights = dags["flights__ingest"]
    assert flights.get_task("publish_dead_letters").upstream_task_ids == {"upload", "wait_for_dead_letters"}
    assert flights.get_task("publish").upstream_task_ids == {"wait_until_ready", "publish_dead_letters"}
    assert flights.get_task("publish_dead_letters").outlets == [assets.ingested("dead")]
    assert set(flights.params) == {"force", "accept_gap", "dry_run"}


def test_the_form_is_the_request() -> None:
    """What a person asks for is what the job is asked for, and nothing else."""
    form = {"force": True, "accept_gap": False, "dry_run": True}
    request = ingest.kafka_request({"params": form})
    assert jobs.UploadRequest.model_validate(request) == jobs.UploadRequest(force=True)


def result(config: Path, **other: list[str]) -> dict[str, str]:
    """Leave the result of an upload to `flights`, and return what its task pushes."""
    key = jobs.result_key("flights", "run")
    found = jobs.JobResult(
        verb="upload", stream="flights", run="run", ok=True, started=1, ended=2, blocks=[BLOCKS[0]], other_blocks=other
    )
    LocalBucket(config.parent / "bucket").put(key, found.to_json())
    return {"result_key": key}


def test_dead_letters_are_told_of_where_there_are_some(config: Path) -> None:
    """The event of their stream comes with the blocks; without any the task is skipped."""
    told = assets.ingested("dead")
    where = {"stream": "dead", "config_file": str(config), "asset": told}
    some = DeadLettersOperator(task_id="some", results=result(config, dead=[BLOCKS[1]]), **where)
    assert some.execute({}) == 1
    none = DeadLettersOperator(task_id="none", results=result(config), **where)
    with pytest.raises(AirflowSkipException):
        none.execute({})


def test_each_stream_s_blocks_are_waited_for_by_itself(config: Path) -> None:
    """Of one job's result: the job's own stream its blocks, the other one those that were uploaded to it."""
    bucket = LocalBucket(config.parent / "bucket")
    keys = [result(config, dead=[BLOCKS[1]])["result_key"]]
    watches = {name: BlockWatch.of_results(bucket, name, keys, Times()) for name in ("flights", "dead", "raw")}
    assert {name: watch.pending for name, watch in watches.items()} == {
        "flights": {BLOCKS[0]},
        "dead": {BLOCKS[1]},
        "raw": set(),
    }
