"""Whole runs of the DAGs by which people act on messages, with `dag.test()`: real jobs, a real broker."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from kafka_world import KafkaWorld

from drystone.airflow.run_report import RunReport, read_report
from drystone.airflow.runs import run_name
from drystone.ingest.kafka.broker import Broker
from drystone.ingest.kafka.fetch import fetch
from drystone.ingest.kafka.log import Partition
from drystone.ingest.kafka.messages import MESSAGES
from drystone.testing.kafka import KafkaBroker
from drystone.testing.messages import FieldsParser

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.kafka]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def world(kafka: KafkaBroker, tmp_path: Path, database: Path, monkeypatch: pytest.MonkeyPatch) -> KafkaWorld:
    """The three streams, in a folder that jobs see; 40 messages of three days, some misread, and 2 that are none."""
    monkeypatch.setenv("DRYSTONE_CONFIG", str(tmp_path / "drystone.yaml"))
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", json.dumps({"conn_type": "spark", "host": "local[2]"}))
    found = KafkaWorld(kafka, tmp_path, shared=True)
    found.produce([(f"2023-11-0{1 + n % 3}T00:00:00Z", ("Oslo", "Rome")[n % 2]) for n in range(40)], broken=2)
    found.ingest("raw")
    found.ingest("flights", FieldsParser(wrong=frozenset({"Oslo"}), refused=frozenset({"Rome"})))
    time.sleep(6.1)  # Jobs go by the machine's clock, and these rows shall be ready.
    return found


def run(world: KafkaWorld, dag_id: str, **conf: Any) -> tuple[DagRun, RunReport]:
    """Run a DAG to its end, without retries; return the run and its report."""
    dag = DagBag(dag_folder=str(ROOT / "dags")).dags[dag_id]
    for task in dag.tasks:
        task.retries = 0
    done = dag.test(run_conf=conf)
    report = read_report(world.bucket, dag_id.partition("__")[0], run_name(dag_id, done.run_id))
    assert report is not None
    assert report.failed == (), report.to_markdown()
    assert str(done.state) == "success"
    return done, report


def messages(world: KafkaWorld, topic: str) -> list[pa.Table]:
    """Return what a reader of committed messages sees, by partition, but for where it lies."""
    rules = world.loaded.stream("raw").kafka
    with Broker(rules, "test") as broker:
        ends = broker.offsets([Partition(topic, number) for number in (0, 1)])
    found = [fetch(rules, "test", (topic, place.number), 0, last.end) for place, last in ends.items()]
    return [pa.Table.from_batches(list(each), MESSAGES).drop_columns(["topic", "offset"]) for each in found]


def test_a_backfill_and_replays_by_form(world: KafkaWorld) -> None:
    """Wrong rows are replaced; raw messages and dead letters are sent again as they were; dry runs do neither."""
    everything = [f"{world.topic}:0", f"{world.topic}:1"]
    target = f"{world.topic}-again"
    world.broker.create_topic(target, 2)
    before = messages(world, world.topic)
    dead = sorted(world.errors())
    assert len(dead) == 22

    form = {"offsets": everything, "to": target}
    _, report = run(world, "raw__replay", **form)
    assert [(job.task, job.summary) for job in report.jobs] == [("replay", {"messages": 42, "to": target})]
    assert [each.num_rows for each in messages(world, target)] == [0, 0]
    _, report = run(world, "raw__replay", **form, dry_run=False)
    assert report.jobs[0].summary == {"messages": 42, "to": target}
    assert all(after.equals(each) for after, each in zip(messages(world, target), before, strict=True))
    run(world, "dead__replay", **form, dry_run=False)
    assert sum(each.num_rows for each in messages(world, target)) == 42 + 22

    wrong = world.cities()
    run(world, "flights__backfill", offsets=everything)
    assert world.cities() == wrong
    _, report = run(world, "flights__backfill", offsets=everything, reason="bug 17", approval=False, dry_run=False)
    assert {job.verb for job in report.jobs} == {"backfill"}
    assert sorted(world.cities().values()) == ["Oslo"] * 20 + ["Rome"] * 20
    assert len(world.errors()) == 2
    for name in (world.topic, target):
        world.broker.delete_topic(name)
