"""From a real broker into blocks, out to Secor's files, and read there by Hadoop's own reader."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest
from kafka_streams import BEGIN, DAY, HOUR, KafkaStream
from pyspark.sql import SparkSession

from drystone.ingest.formats.layout import parse
from drystone.jobs import ExportRequest, JobResult
from drystone.spark import jobs

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.kafka]


def export(stream: KafkaStream, run: str) -> JobResult:
    """Run the job, when every block is ready."""
    stream.ahead[0] += HOUR
    return jobs.run("export", stream.loaded, "raw", run, ExportRequest(), stream.spark)


def exported(stream: KafkaStream, spark: SparkSession) -> Counter[tuple[str, int, int, bytes]]:
    """Return what Hadoop reads of all files: topic, partition, offset, value."""
    found: Counter[tuple[str, int, int, bytes]] = Counter()
    for item in stream.bucket.list("logs/"):
        place = parse("logs", item.key)
        if place is not None:
            records = spark.sparkContext.sequenceFile(stream.bucket.uri(item.key)).collect()
            keys = [msgspec.msgpack.decode(bytes(key)) for key, _ in records]
            assert min(key[1] for key in keys) == place.offset
            assert {(key[3] - BEGIN) // DAY for key in keys} == {int(place.parts[0] > "dt=2023-11-14")}
            rows = zip(keys, records, strict=True)
            found.update((place.topic, place.partition, key[1], bytes(value)) for key, (_, value) in rows)
    return found


RECORD, FILE, DONE = r"/export\.json$", r"logs/.*/\d[^/]*$", r"/\.exports/.*\.done$"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "when", "number"),
    [(RECORD, "after", 1), (FILE, "before", 1), (FILE, "after", 3), (DONE, "before", 1), (DONE, "after", 1)],
)
def test_an_export_that_is_killed(stream: KafkaStream, spark: SparkSession, key: str, when: str, number: int) -> None:
    """With SIGKILL, before or after any of its writes: what is there is whole, and the next one does the rest."""
    stream.configure(export={"prefix": "logs"})
    stream.produce(30, aborted=5)
    stream.produce(20, partition=1)
    assert stream.job().ok
    stream.ahead[0] += HOUR
    with stream.frozen_job(key, when, number, verb="export", again=False):
        pass
    there = exported(stream, spark)
    assert there <= Counter(stream.committed())
    done = export(stream, "next")
    assert done.ok, done.error
    assert exported(stream, spark) == Counter(stream.committed())
    assert export(stream, "last").summary["plans"] == 0


def test_every_committed_message_is_in_one_file(stream: KafkaStream, spark: SparkSession) -> None:
    """Exported after each ingest; a day is finished once Kafka has nothing left that may belong to it."""
    stream.configure(export={"prefix": "logs"})
    stream.produce(30, aborted=5)
    stream.produce(20, partition=1)
    assert stream.job().ok
    stream.produce(10, partition=1)
    first = export(stream, "export-1")
    assert first.ok, first.error
    assert (first.summary["messages"], first.summary["files"], first.summary["periods_finished"]) == (50, 4, 0)
    assert stream.job().ok
    second = export(stream, "export-2")
    assert second.ok, second.error
    assert (second.summary["messages"], second.summary["files_new"], second.summary["periods_finished"]) == (10, 2, 2)
    assert exported(stream, spark) == Counter(stream.committed())
    success = [item.key for item in stream.bucket.list("logs/") if item.key.endswith("_SUCCESS")]
    assert success == [f"logs/{stream.topic()}/dt=2023-11-{day}/_SUCCESS" for day in (14, 15)]
    third = export(stream, "export-3")
    assert (third.ok, third.summary["plans"]) == (True, 0)
