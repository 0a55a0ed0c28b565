"""Streams over a real broker: jobs in this process or in one of their own, and what Kafka says that must be there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from confluent_kafka import Consumer, TopicPartition
from kills import descendants, kill, processes
from pydantic import BaseModel
from pyspark.sql import SparkSession

from drystone import clock, scan
from drystone.bucket import Bucket, open_bucket
from drystone.config.load import Loaded, load
from drystone.jobs import BackfillRequest, JobResult, UploadRequest, Verb
from drystone.spark import jobs
from drystone.testing.kafka import KafkaBroker, send
from drystone.testing.kafka_jars import source_jars

HOUR = 3_600_000
DAY = 24 * HOUR
BEGIN = 1_700_000_000_000
PATIENCE = 300
FREEZING = Path(__file__).parent / "freezing"
Message = tuple[str, int, int, bytes]
"""Topic, partition, offset, value."""


@dataclass
class KafkaStream:
    """A backup stream over the topics of a prefix of its own, in a folder of its own.

    `deleted`: messages that were in the log when a topic was deleted, which a reader of Kafka cannot be asked for.
    """

    folder: Path
    kafka: KafkaBroker
    spark: SparkSession
    prefix: str = field(default_factory=lambda: f"t{uuid.uuid4().hex[:8]}")
    ahead: list[int] = field(default_factory=lambda: [0])
    deleted: set[Message] = field(default_factory=set)
    runs: int = 0
    names: tuple[str, ...] = ("raw",)

    def configure(self, **changes: Any) -> None:
        """Write the configuration, with changes in `ingest`."""
        ingest = {
            "kind": "kafka",
            "group": "backup",
            "bootstrap_servers": self.kafka.bootstrap_servers,
            "topics": rf"{self.prefix}\..*",
        }
        streams = {"raw": {"labels": {"dataset": "raw"}, "ingest": ingest | changes}}
        self._write(streams)

    def configure_parsed(self, parser: dict[str, Any], **changes: Any) -> None:
        """Write the configuration of a stream that parses, with one of dead letters."""
        ingest = {
            "kind": "kafka",
            "group": "partition",
            "bootstrap_servers": self.kafka.bootstrap_servers,
            "topics": rf"{self.prefix}\..*",
            "dead_letters": "dead",
            "max_bad_fraction": 0.5,
            "parser": parser,
        }
        parsed = {
            "labels": {"dataset": "parsed"},
            "time_column": "at",
            "sort_key": ["city", "at"],
            "schema": {"at": "timestamp", "city": "string", "number": "int64"},
            "ingest": ingest | changes,
        }
        dead = {"labels": {"dataset": "dead"}, "ingest": {"kind": "dead_letters"}}
        self._write({"raw": parsed, "dead": dead})
        self.names = ("raw", "dead")

    def _write(self, streams: dict[str, Any]) -> None:
        document = {"version": 1, "bucket": "file:bucket", "streams": streams}
        self.config.write_text(yaml.safe_dump(document, sort_keys=False))

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.folder / "drystone.yaml"

    @property
    def loaded(self) -> Loaded:
        """The configuration."""
        return load(self.config)

    @property
    def bucket(self) -> Bucket:
        """The bucket."""
        return open_bucket(self.loaded.bucket_url("raw"))

    def topic(self, name: str = "a") -> str:
        """The whole name of a topic."""
        return f"{self.prefix}.{name}"

    def produce(self, count: int, *, name: str = "a", partition: int = 0, aborted: int = 0, bad: int = 0) -> None:
        """Send messages of two days in transactions: some that are aborted first, which leave gaps in the offsets."""
        producer = self.kafka.producer(f"{self.prefix}-{uuid.uuid4().hex}")
        if aborted:
            producer.begin_transaction()
            send(producer, self.topic(name), [{"value": b"aborted", "partition": partition} for _ in range(aborted)])
            producer.abort_transaction()
        producer.begin_transaction()
        send(producer, self.topic(name), [_message(number, partition) for number in range(count)])
        send(producer, self.topic(name), [{"value": b"?", "partition": partition, "timestamp": BEGIN}] * bad)
        producer.commit_transaction()

    def committed(self) -> set[Message]:
        """Return every committed message that Kafka has now."""
        topics = self.kafka.admin().list_topics(timeout=20).topics
        places = [
            TopicPartition(name, number, 0)
            for name, topic in topics.items()
            if name.startswith(f"{self.prefix}.")
            for number in topic.partitions
        ]
        settings = {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "oracle"}
        more = {"isolation.level": "read_committed", "auto.offset.reset": "earliest", "enable.partition.eof": True}
        consumer = Consumer(settings | more | {"enable.auto.commit": False})
        consumer.assign(places)
        found: set[Message] = set()
        ended = 0
        while ended < len(places):
            message = consumer.poll(20)
            assert message is not None, "Kafka does not answer"
            if message.error() is not None:
                ended += 1
            else:
                found.add((message.topic(), message.partition(), message.offset(), message.value()))
        consumer.close()
        return found

    def delete_topic(self, name: str = "a") -> None:
        """Delete a topic; its messages that are in blocks by now must stay there."""
        self.deleted |= {each for each in self.committed() if each[0] == self.topic(name)}
        self.kafka.delete_topic(self.topic(name))

    def job(self, run: str = "", *, dry_run: bool = False, **request: Any) -> JobResult:
        """Run an ingest in this process; by default it takes all there is."""
        return self._run("upload", UploadRequest.model_validate({"force": True} | request), run, dry_run=dry_run)

    def backfill(self, **request: Any) -> JobResult:
        """Plan a backfill in this process, or carry one out."""
        return self._run("backfill", BackfillRequest.model_validate(request))

    def _run(self, verb: Verb, request: BaseModel, run: str = "", *, dry_run: bool = False) -> JobResult:
        self.runs += 1
        return jobs.run(verb, self.loaded, "raw", run or f"run-{self.runs}", request, self.spark, dry_run=dry_run)

    @contextmanager
    def frozen_job(
        self, key: str, when: str, number: int = 1, *, overwrites: bool = False, verb: Verb = "upload", **request: Any
    ) -> Iterator[Frozen]:
        """Start a job in a process of its own, and let it run until it stands still at that write (or fails).

        `overwrites`: plant a bug: a plan's outcome is put, and not created. Without a request, an ingest takes all.
        """
        folder = self.folder / f"freeze-{uuid.uuid4().hex[:6]}"
        folder.mkdir()
        asked = {"key": key, "when": when, "number": number, "folder": str(folder)}
        asked |= {"overwrites": overwrites, "ahead": self.ahead[0]}
        frozen = Frozen(folder, self._start(folder, asked, verb, request or {"force": True}))
        try:
            frozen.wait()
            yield frozen
        finally:
            frozen.kill()

    def _start(
        self, folder: Path, asked: dict[str, Any], verb: Verb, request: dict[str, Any]
    ) -> subprocess.Popen[bytes]:
        environment = os.environ | {
            "DRYSTONE_FREEZE": json.dumps(asked),
            "PYTHONPATH": str(FREEZING),
            "PYSPARK_SUBMIT_ARGS": f"--master local[2] {spark_options()} pyspark-shell",
        }
        command = [sys.executable, f"spark_jobs/drystone_{verb}.py", "--config", str(self.config), "--stream", "raw"]
        command += ["--run", folder.name, "--request", json.dumps(request)]
        with (folder / "log").open("wb") as log:
            return subprocess.Popen(command, env=environment, stdout=log, stderr=log)

    def held(self) -> list[Message]:
        """Return the messages of all rows that readers see, when everything is ready."""
        self.ahead[0] += HOUR
        found: list[Message] = []
        for name in self.names:
            if not any(self.bucket.list(f"{name}/0")):
                continue
            for batch in scan(self.bucket, name):
                for row in batch.to_pylist():
                    place = (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"])
                    found.append((*place, _value(row)))
        return found

    def check(self, *, lost: Iterable[Message] = ()) -> None:
        """Fail unless readers see each committed message exactly once, and nothing else."""
        held = Counter(self.held())
        wanted = (self.committed() | self.deleted) - set(lost)
        assert [message for message, times in held.items() if times > 1] == [], "doubled"
        assert sorted(wanted - held.keys()) == [], "lost"
        assert sorted(held.keys() - wanted) == [], "invented"


@dataclass
class Frozen:
    """A job in a process of its own that stands still, or has ended."""

    folder: Path
    process: subprocess.Popen[bytes]

    def wait(self) -> None:
        """Wait until it stands still, or has ended."""
        deadline = time.monotonic() + PATIENCE
        while not (self.folder / "frozen").exists() and self.process.poll() is None:
            assert time.monotonic() < deadline, self.log
            time.sleep(0.05)
        assert (self.folder / "frozen").exists(), self.log

    def kill(self) -> None:
        """Kill it, with its JVM and its workers, as it stands."""
        running = processes()
        kill({self.process.pid} | descendants(running, {self.process.pid}))
        self.process.wait()

    def go_on(self) -> int:
        """Let it go on, and return its exit code."""
        (self.folder / "go").touch()
        return self.process.wait(PATIENCE)

    @property
    def log(self) -> str:
        """What it wrote."""
        return (self.folder / "log").read_text(errors="replace")[-3000:]


def spark_options() -> str:
    """Return spark-submit's options for a small Spark with its Kafka source."""
    jars = ":".join(str(jar) for jar in source_jars())
    settings = (
        "spark.ui.enabled=false",
        "spark.sql.shuffle.partitions=4",
        f"spark.driver.extraClassPath={jars}",
        "spark.driver.extraJavaOptions='-XX:+UseSerialGC -XX:TieredStopAtLevel=1'",
    )
    return " ".join(f"--conf {setting}" for setting in settings)


def make_stream(folder: Path, kafka: KafkaBroker, spark: SparkSession, monkeypatch: Any) -> KafkaStream:
    """Return a stream with a topic `a` of two partitions."""
    stream = KafkaStream(folder, kafka, spark)
    monkeypatch.setattr(clock, "system", lambda: time.time_ns() // 1_000_000 + stream.ahead[0])
    kafka.create_topic(stream.topic(), 2)
    stream.configure()
    return stream


def _message(number: int, partition: int) -> dict[str, Any]:
    at = BEGIN + (number % 2) * DAY
    value = {"at": at, "city": f"c{number % 7}", "number": number}
    return {"value": json.dumps(value).encode(), "key": f"k{number}", "partition": partition, "timestamp": at}


def _value(row: dict[str, Any]) -> bytes:
    if "value" in row:
        return bytes(row["value"])
    at = int(row["at"].timestamp() * 1000)
    return json.dumps({"at": at, "city": row["city"], "number": row["number"]}).encode()
