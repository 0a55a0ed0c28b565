"""Streams of messages from a real broker, filled by the real builder without Spark: for what comes after the ingest."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa

from drystone import clock, ulids
from drystone.bucket import Bucket, open_bucket
from drystone.config.load import Loaded, load
from drystone.coordination import NoCoordination
from drystone.engine.job import Job
from drystone.engine.local import LocalWorkers
from drystone.engine.outcome import Outcome
from drystone.engine.pacer import ThreadPacer
from drystone.engine.record import apply_config
from drystone.ingest.kafka.broker import Broker
from drystone.ingest.kafka.build import PlanBuilder
from drystone.ingest.kafka.fetch import fetch
from drystone.ingest.kafka.log import Partition
from drystone.ingest.kafka.plans import Done, Plan, Root
from drystone.ingest.kafka.settle import read_slices
from drystone.ingest.kafka.streams import kafka_streams
from drystone.ingest.parsers.protocol import Parser
from drystone.ingest.parsers.registry import parser_of
from drystone.jobs import BackfillRequest
from drystone.reader import scan
from drystone.testing.kafka import KafkaBroker, send
from drystone.testing.messages import target
from drystone.tracker import ListingTracker
from drystone.verbs.backfill import Backfill

_CONFIG = """
version: 1
bucket: {bucket}
streams:
  raw:
    labels: {{stream: raw}}
    times: {times}
    ingest: {{kind: kafka, group: backup, bootstrap_servers: "{servers}", topics: "{topic}"}}
  flights:
    labels: {{stream: flights}}
    times: {times}
    schema: {{at: timestamp, city: string}}
    time_column: at
    sort_key: [city, at]
    ingest:
      kind: kafka
      group: partition
      bootstrap_servers: "{servers}"
      topics: "{topic}"
      dead_letters: dead
      max_bad_fraction: 0.5
      parser: {{format: json}}
  dead:
    labels: {{stream: dead}}
    times: {times}
    ingest: {{kind: dead_letters}}
"""
_SHORT = (
    "{sync_delay: 6s, upload_timeout: 5s, clock_skew: 0s, read_timeout: 30s, delete_delay: 60s, "
    "allow_short_delays: true}"
)
Position = tuple[int, int]


@dataclass
class KafkaWorld:
    """A topic of two partitions, the three streams of it, and a clock that can be put on."""

    broker: KafkaBroker
    folder: Path
    topic: str = field(default_factory=lambda: f"flights-{uuid4().hex[:8]}")
    ahead: int = 0
    sent: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    settled: set[Position] = field(default_factory=set)
    """Messages that readers must see from now on."""
    shared: bool = False
    """The bucket is a folder, which other processes see too, and delays are short; else it is memory."""

    def __post_init__(self) -> None:
        """Make the topic and the configuration."""
        self.broker.create_topic(self.topic, 2)
        bucket = "file:bucket" if self.shared else f"memory://{uuid4().hex}"
        names = {"bucket": bucket, "servers": self.broker.bootstrap_servers, "topic": self.topic}
        text = _CONFIG.format(times=_SHORT if self.shared else "{}", **names)
        (self.folder / "drystone.yaml").write_text(text)
        rules = self.loaded.stream("raw").kafka
        with Broker(rules, "test") as broker:
            self.topic_id = broker.topics(self.topic)[0].id

    @property
    def loaded(self) -> Loaded:
        """The configuration."""
        return load(self.folder / "drystone.yaml")

    @property
    def bucket(self) -> Bucket:
        """The bucket."""
        return open_bucket(self.loaded.bucket_url("raw"))

    def now(self) -> int:
        """The time, in ms."""
        return clock.system() + self.ahead

    def pass_time(self, ms: int = 20 * 60_000) -> None:
        """Let everything that was uploaded become ready."""
        self.ahead += ms

    def produce(self, rows: Sequence[tuple[str | None, str]], broken: int = 0) -> None:
        """Send flights (time, city), and messages that are none, to both partitions in turn."""
        values = [json.dumps({"at": at, "city": city}).encode() for at, city in rows] + [b"{broken"] * broken
        messages: list[Mapping[str, Any]] = [
            {
                "value": value,
                "key": b"k%d" % number,
                "partition": number % 2,
                "timestamp": self.now() - 1000,
                "headers": [("n", b"%d" % number)],
            }
            for number, value in enumerate(values)
        ]
        send(self.broker.producer(), self.topic, messages)

    def ingest(self, stream: str, parser: Parser | None = None) -> None:
        """Plan, build and commit all that waits, as a run of the stream's ingest does."""
        rules, bucket = self.loaded.stream(stream).kafka, self.bucket
        with Broker(rules, "test") as broker:
            offsets = broker.offsets([Partition(self.topic, number) for number in (0, 1)])
        if (stream, 0) not in self.ends:
            root = Root(topic=self.topic, topic_id=self.topic_id, starts={}, planned_at=self.now())
            bucket.create(f"{stream}/.ingest/0/{self.topic_id}/root.json", root.to_json())
        for place, (_, end) in offsets.items():
            start = self.ends.get((stream, place.number), 0)
            if start < end:
                self._one(stream, self._plan(stream, place.number, start, end, parser), parser)
                self.ends[stream, place.number] = end

    def _one(self, stream: str, plan: Plan, parser: Parser | None) -> None:
        loaded, bucket = self.loaded, self.bucket
        bucket.create(plan.plan_key, plan.to_json())
        dead = None if parser is None else target(bucket, "dead", loaded.stream("dead"))
        config = loaded.stream(stream)
        builder = PlanBuilder(
            bucket=bucket,
            plans={(plan.topic, plan.partition): plan},
            main=target(bucket, stream, config),
            dead=dead,
            parser=parser,
            max_bad_fraction=1.0,
            present=frozenset(),
            memory=256 << 20,
            clock=self.now,
        )
        place = (plan.topic, plan.partition)
        list(builder(fetch(config.kafka, "test", place, plan.start, plan.end)))
        slices = read_slices(bucket, plan)
        assert slices is not None
        done = Done(outcome="committed", attempt=0, run="test", time=self.now(), bad=slices.bad)
        bucket.create(plan.done_key, done.to_json())

    def _plan(self, stream: str, partition: int, start: int, end: int, parser: Parser | None) -> Plan:
        return Plan(
            stream=stream,
            generation=0,
            topic=self.topic,
            topic_id=self.topic_id,
            partition=partition,
            start=start,
            end=end,
            planned_at=self.now(),
            parser="" if parser is None else parser.digest,
            reason="forced",
        )

    def job(self, stream: str = "flights", bucket: Bucket | None = None, *, dry_run: bool = False) -> Job:
        """Return a job that this process does."""
        config, there = self.loaded.stream(stream), bucket or self.bucket
        return Job(
            stream=stream,
            config=config,
            run=f"test-{ulids.new(clock.system())}",
            dry_run=dry_run,
            bucket=there,
            record=apply_config(there, stream, config),
            tracker=ListingTracker(there, stream),
            coordination=NoCoordination(),
            workers=LocalWorkers(self.now),
            clock=self.now,
            pacer=ThreadPacer(),
        )

    def parser(self) -> Parser:
        """The parser that the configuration names."""
        return parser_of(self.loaded.stream("flights"), self.folder)

    def backfill(self, parser: Parser, bucket: Bucket | None = None, **request: Any) -> Outcome:
        """Plan a backfill, by default of everything, or carry one out."""
        return self.run(parser, bucket, **request).run()

    def run(self, parser: Parser, bucket: Bucket | None = None, **request: Any) -> Backfill:
        """Return a run that has not begun."""
        if "plan_key" not in request and "interval" not in request:
            request.setdefault("offsets", (f"{self.topic}:0", f"{self.topic}:1"))
        found = BackfillRequest.model_validate(request)
        return Backfill(self.job(bucket=bucket), found, kafka_streams(self.loaded), parser)

    def do(self, parser: Parser, **request: Any) -> Outcome:
        """Plan a backfill, and carry it out; raise AssertionError if some of it fails."""
        plan = self.backfill(parser, **request)
        done = self.backfill(parser, plan_key=plan.plan_key)
        assert not done.failures, done.failures
        return done

    def rows(self, stream: str) -> dict[Position, dict[str, Any]]:
        """Return what a reader sees, by partition and offset; raise AssertionError if a message is there twice."""
        found: dict[Position, dict[str, Any]] = {}
        for row in self._scan(stream):
            place = (row.pop("kafka_partition"), row.pop("kafka_offset"))
            assert place not in found, f"{place} is twice in {stream}"
            found[place] = row
        return found

    def cities(self) -> dict[Position, str]:
        """Return the city of each row of the stream."""
        return {place: row["city"] for place, row in self.rows("flights").items()}

    def errors(self) -> dict[Position, str]:
        """Return the error of each dead letter."""
        return {place: row["error"] for place, row in self.rows("dead").items()}

    def _scan(self, stream: str) -> Iterator[dict[str, Any]]:
        for batch in scan(self.bucket, stream, now=self.now):
            yield from pa.Table.from_batches([batch]).to_pylist()
