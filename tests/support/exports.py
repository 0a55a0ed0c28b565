"""A backup stream whose blocks are built by the ingest's own builder, and its exports."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from sequence_files import read_sequence_file

from drystone.block import keys
from drystone.bucket.memory import MemoryBucket
from drystone.bucket.protocol import Bucket
from drystone.config.model import StreamConfig
from drystone.coordination import NoCoordination
from drystone.engine.job import Job
from drystone.engine.local import LocalWorkers
from drystone.engine.outcome import Outcome
from drystone.engine.pacer import ThreadPacer
from drystone.engine.record import apply_config
from drystone.errors import ObjectExistsError
from drystone.ingest.export.left import Left
from drystone.ingest.formats.layout import parse
from drystone.ingest.kafka.build import PlanBuilder
from drystone.ingest.kafka.log import Offsets, Partition, Sample, Topic
from drystone.ingest.kafka.plans import Done, Plan, Root
from drystone.jobs import CompactRequest, DetectRequest, ExportRequest
from drystone.testing.messages import Message, batches, target
from drystone.testing.streams import ManualClock
from drystone.tracker import ListingTracker
from drystone.verbs import compact, detect, export

STREAM, PREFIX = "raw", "logs"
HOUR, DAY = 3_600_000, 86_400_000
NOW = 1_700_000_000_000
TODAY = NOW // DAY * DAY
Read = dict[str, list[tuple[int, bytes | None, int | None, bytes]]]


def config(generation: int = 0, **changes: Any) -> StreamConfig:
    """Return a backup stream that exports; `changes`: of its export."""
    kafka = {"kind": "kafka", "group": "backup", "bootstrap_servers": "127.0.0.1:1", "topics": "flights|trains"}
    own = {"prefix": PREFIX, **changes}
    stream = {"labels": {"a": "b"}, "generation": generation, "ingest": {**kafka, "export": own}}
    return StreamConfig.model_validate(stream)


@dataclass
class Kafka:
    """What waits in Kafka, written down: of each partition its offsets, and when the first that waits was written."""

    ids: dict[str, str] = field(default_factory=lambda: {"flights": "T1"})
    ends: dict[tuple[str, int], int] = field(default_factory=dict)
    oldest: dict[tuple[str, int], int] = field(default_factory=dict)

    def topics(self, pattern: str) -> list[Topic]:  # noqa: ARG002 - as the protocol has it
        """See the protocol."""
        numbers = {name: tuple(sorted({n for topic, n in self.ends if topic == name} | {0})) for name in self.ids}
        return [Topic(name, self.ids[name], numbers[name]) for name in self.ids]

    def offsets(self, partitions: Any) -> dict[Partition, Offsets]:
        """See the protocol."""
        return {each: Offsets(0, self.ends.get((*each,), 0)) for each in partitions}

    def samples(self, ranges: Mapping[Partition, Offsets]) -> dict[Partition, Sample]:
        """See the protocol."""
        return {each: Sample(1, 1.0, self.oldest.get((*each,))) for each in ranges}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """See the protocol."""
        raise AssertionError(f"an export moves no offsets: {offsets}")


@dataclass
class Bench:
    """The stream. `bucket`: through which jobs see it, in place of the plain one."""

    plain: Bucket
    clock: ManualClock
    config: StreamConfig
    kafka: Kafka = field(default_factory=Kafka)

    def ingest(self, messages: Sequence[Message], *, topic: str = "flights", partition: int = 0, **more: Any) -> Plan:
        """Ingest messages as one plan, from where the last one of their partition ended; nothing is ready yet."""
        where = {"topic": topic, "topic_id": self.kafka.ids.get(topic, "T1"), "partition": partition, **more}
        end = messages[-1].offset + 1
        start = self.kafka.ends.get((topic, partition), 0)
        plan = Plan(
            stream=STREAM, generation=self.config.generation, start=start, end=end, planned_at=self.clock(), parser="",
            reason="size", **where,
        )  # fmt: skip
        self.kafka.ends[topic, partition] = end
        root = Root(topic=topic, topic_id=plan.topic_id, starts={}, planned_at=self.clock())
        with contextlib.suppress(ObjectExistsError):
            key = keys.kafka_root(STREAM, plan.generation, plan.topic_id)
            self.plain.create(key, root.to_json())
        self.plain.create(plan.plan_key, plan.to_json())
        builder = PlanBuilder(
            bucket=self.plain,
            plans={(topic, partition): plan},
            main=target(self.plain, STREAM, self.config),
            dead=None,
            parser=None,
            max_bad_fraction=0,
            present=frozenset(),
            memory=512 << 20,
            clock=self.clock,
        )
        assert list(builder(batches(messages, topic=topic, partition=partition)))
        done = Done(outcome="committed", attempt=0, run="test", time=self.clock(), rows=len(messages))
        self.plain.create(plan.done_key, done.to_json())
        return plan

    def ready(self) -> None:
        """Let an hour pass."""
        self.clock.advance(HOUR)

    def job(self, bucket: Bucket | None = None, *, dry_run: bool = False) -> Job:
        """Return a job of this process."""
        bucket = bucket or self.plain
        return Job(
            stream=STREAM,
            config=self.config,
            run="test",
            dry_run=dry_run,
            bucket=bucket,
            record=apply_config(self.plain, STREAM, self.config),
            tracker=ListingTracker(bucket, STREAM),
            coordination=NoCoordination(),
            workers=LocalWorkers(self.clock),
            clock=self.clock,
            pacer=ThreadPacer(),
        )

    def export(self, bucket: Bucket | None = None, *, dry_run: bool = False, **request: Any) -> Outcome:
        """Run the export job."""
        wanted = ExportRequest.model_validate(request)

        @contextlib.contextmanager
        def look() -> Iterator[Left]:
            yield Left(self.kafka, self.config.kafka.topics, self.clock)

        return export.run(self.job(bucket, dry_run=dry_run), wanted, look)

    def compact(self, kind: Literal["major", "rewrite"] = "major") -> None:
        """Roll all up by the month, once that is over, or rewrite what edits take from, and let it become ready."""
        self.clock.advance(40 * DAY)
        planned = detect.run(self.job(), DetectRequest(kind=kind))
        assert planned.batches
        for batch in planned.batches:
            done = compact.run(self.job(), CompactRequest(plan_key=planned.plan_key or "", batch=batch.number))
            assert done.blocks
            assert not done.failures
        self.ready()

    def objects(self) -> dict[str, bytes]:
        """Return every file of the export, `_SUCCESS` among them."""
        return {item.key: self.plain.get(item.key) for item in self.plain.list(f"{PREFIX}/")}

    def read(self) -> Read:
        """Return what the SequenceFiles hold, by key: offset, message key, time and message."""
        found: Read = {}
        for key, raw in self.objects().items():
            if parse(PREFIX, key) is not None:
                records, _ = read_sequence_file(raw)
                maps = [(msgspec.msgpack.decode(name), value) for name, value in records]
                found[key] = [(each[1], each.get(2), each.get(3), value) for each, value in maps]
        return found


class Watched(MemoryBucket):
    """The bucket of the same name; `before` is called before each write, with its number, and `after` after it."""

    def __init__(self, bench: Bench, before: Callable[[int], None], after: Callable[[int], None]) -> None:
        """`bench`: whose objects, in memory, are seen."""
        super().__init__(bench.plain.url.removeprefix("memory://"), bench.clock)
        self.before, self.after, self.writes = before, after, 0

    def _write(self, key: str, data: bytes, *, create: bool) -> None:
        number = self.writes
        self.writes += 1
        self.before(number)
        super()._write(key, data, create=create)
        self.after(number)


def messages_of(count: int, begin: int = 0, *, day: int = 0) -> list[Message]:
    """Return messages over three days, offsets with gaps, times not in their order, some without a time or a key."""
    return [
        Message(
            offset=begin + number * 3 + number % 2,
            time=None if number % 11 == 5 else TODAY - (number * 7 % 3 + day) * DAY + number * 61_000,
            key=None if number % 4 == 0 else b"k%d" % number,
            value=None if number % 13 == 7 else b"value %d \x00\n" % number,
        )
        for number in range(count)
    ]


def expected(messages: list[Message], topic: str = "flights") -> dict[int, tuple[str, object, object, bytes]]:
    """Return for each offset the folder that its message belongs to, and what a file says of it."""
    found = {}
    for each in messages:
        day = "unknown" if each.time is None else f"{datetime.fromtimestamp(each.time / 1000, UTC):%Y-%m-%d}"
        found[each.offset] = (f"{PREFIX}/{topic}/dt={day}", each.key, each.time, each.value or b"")
    return found


def check(bench: Bench, messages: list[Message], topic: str = "flights", partition: int = 0) -> None:
    """Check that every message of a partition, and nothing else, is in one file, where its time and offset say."""
    found: dict[int, tuple[str, object, object, bytes]] = {}
    for key, rows in bench.read().items():
        place = parse(PREFIX, key)
        assert place is not None
        if (place.topic, place.partition) != (topic, partition):
            continue
        offsets = [offset for offset, *_ in rows]
        assert offsets == sorted(set(offsets))
        assert place.offset == offsets[0], "a file has the offset of its first message in its name"
        assert not found.keys() & set(offsets), "a message is in one file"
        found |= {offset: (key.rpartition("/")[0], *rest) for offset, *rest in rows}  # type: ignore[misc]
    assert found == expected(messages, topic)
