"""The backfill job on Spark: planned by one job, carried out by another, its tasks in processes of their own."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from kafka_world import KafkaWorld
from pyspark.sql import SparkSession

from drystone.jobs import BackfillRequest, JobResult
from drystone.spark import jobs
from drystone.testing.kafka import KafkaBroker
from drystone.testing.messages import FieldsParser

pytestmark = [pytest.mark.spark, pytest.mark.kafka]


def test_a_backfill_is_a_job(kafka: KafkaBroker, spark: SparkSession, tmp_path: Path) -> None:
    """A plan as an object, batches of it on workers, blocks in both streams; a retry of a batch adds nothing."""
    world = KafkaWorld(kafka, tmp_path, shared=True)
    world.produce([(f"2023-11-0{1 + n % 3}T00:00:00Z", ("Oslo", "Rome")[n % 2]) for n in range(40)], broken=2)
    world.ingest("raw")
    world.ingest("flights", FieldsParser(wrong=frozenset({"Oslo"}), refused=frozenset({"Rome"})))
    time.sleep(6.1)  # The job goes by the machine's clock.

    def run(name: str, **fields: object) -> JobResult:
        request = BackfillRequest.model_validate(fields)
        result = jobs.run("backfill", world.loaded, "flights", name, request, spark, dry_run=name == "dry")
        assert result.ok, result.error
        return result

    offsets = (f"{world.topic}:0", f"{world.topic}:1")
    assert "parse" in run("dry", offsets=offsets).report
    plan = run("plan", offsets=offsets, batches=2)
    assert len(plan.batches) == 2
    fields = {"plan_key": plan.plan_key, "digest": plan.summary["digest"]}
    done = [run(f"batch-{number}", batch=number, **fields) for number in (0, 1)]
    assert all(result.blocks for result in done)
    assert run("again", batch=0, **fields).blocks == []
    world.pass_time()
    assert set(world.cities().values()) == {"Oslo", "Rome"}
    assert len(world.cities()) == 40
    assert len(world.errors()) == 2
    kafka.delete_topic(world.topic)
