"""Sending messages of a backup, or dead letters, into a topic again. Source: the design, "Ingest: replay"."""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from drystone.clock import Clock
from drystone.config.ingest import POSITION, RAW_TIME, KafkaIngest
from drystone.config.load import Loaded
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.errors import UsageError
from drystone.ingest.backfill.choose import OffsetRange, parse_range
from drystone.ingest.backfill.held import Reads, as_messages, kept_rows
from drystone.ingest.backfill.roots import Sources
from drystone.ingest.kafka.broker import Broker
from drystone.ingest.kafka.produce import produce
from drystone.ingest.kafka.slicing import Slot
from drystone.ingest.kafka.spools import Order, Spools
from drystone.ingest.kafka.streams import KafkaStream, kafka_stream, kafka_streams
from drystone.ingest.kafka.trace import reads_of
from drystone.jobs import ReplayRequest
from drystone.reader.located import Place
from drystone.reader.view import View, look


def run(job: Job, request: ReplayRequest, loaded: Loaded) -> Outcome:
    """Send what the request names, or in a dry run count it; another try of the same run sends nothing twice."""
    replay = prepare(loaded, job.stream, request, job.run, job.clock)
    if job.dry_run:
        counts = replay.count()
        report = [f"Would send {sum(counts.values()):,} messages to {request.to}:"]
        report += [f"* {count:,} of {each}" for each, count in counts.items()]
        return Outcome(summary={"messages": sum(counts.values()), "to": request.to}, report=report)
    count = replay.run()
    return Outcome(
        summary={"messages": count, "to": request.to}, report=[f"{count:,} messages were sent to {request.to}."]
    )


def prepare(loaded: Loaded, stream: str, request: ReplayRequest, run: str, clock: Clock) -> Replay:
    """Return what a request asks for, with the streams of a configuration; raise UsageError if it names none."""
    found = kafka_stream(loaded, stream)
    return Replay(
        stream=found,
        streams=kafka_streams(loaded),
        ranges=[parse_range(text) for text in request.offsets],
        to=request.to,
        kafka=loaded.stream(found.planned_by).kafka,
        again=request.again,
        clock=clock,
        name=run,
    )


@dataclass(frozen=True, slots=True)
class Replay:
    """What to send: messages of `ranges` that `stream` has, into the topic `to` of the cluster of `kafka`.

    `streams`: all of the configuration that hold messages. `again`: also into a topic that one of them reads. `name`:
    of the run, every try of which has the same.
    """

    stream: KafkaStream
    streams: Sequence[KafkaStream]
    ranges: Sequence[OffsetRange]
    to: str
    kafka: KafkaIngest
    again: bool
    clock: Clock
    name: str

    def count(self) -> dict[OffsetRange, int]:
        """Return how many messages there are of each range. Raises UsageError as `run` does."""
        self._check()
        view = self._view()
        return {each: sum(rows.num_rows for rows in self._rows(view, each)) for each in self.ranges}

    def run(self) -> int:
        """Send them, each to the partition it came from, in the order of their offsets; return how many.

        They have the key, the value, the headers and the time that they had; a time that was not known is not given.
        It is one transaction: who reads committed messages sees all of them or none. What another try of this run has
        sent is not sent again (for as long as the cluster keeps a group's offsets: by default a week). Raises
        UsageError for a stream that keeps no messages as they are, a topic with fewer partitions, and one that is
        ingested, if not `again`.
        """
        self._check()
        view = self._view()
        with tempfile.TemporaryDirectory(prefix="drystone-") as folder:
            messages = (each for found in self.ranges for each in self._ordered(view, found, Path(folder)))
            return produce(self.kafka, self.to, messages, self._transaction)

    @property
    def _transaction(self) -> str:
        # Other installations may use the same cluster, and give their runs the same names.
        what = [self.stream.bucket.uri(self.stream.name), self.name, self.to, *map(str, self.ranges)]
        return f"drystone-replay-{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:32]}"

    def _view(self) -> View:
        return look(self.stream.bucket, self.stream.name, self.clock)

    def _check(self) -> None:
        if self.stream.group == "partition":
            msg = f"stream {self.stream.name} keeps parsed rows, not messages."
            raise UsageError(msg, "Name a backup stream, or one of dead letters.")
        readers = [
            each.name
            for each in self.streams
            if isinstance(each.config.ingest, KafkaIngest) and re.fullmatch(each.config.ingest.topics, self.to)
        ]
        if readers and not self.again:
            msg = f"topic {self.to} is read by {', '.join(readers)}: what is sent there is ingested once more."
            raise UsageError(msg, "Name another topic, or give --again.")
        with Broker(self.kafka, "drystone.replay") as broker:
            (topic,) = broker.topics(re.escape(self.to))
        wanted = max((each.partition for each in self.ranges), default=0)
        if wanted not in topic.partitions:
            msg = f"topic {self.to} has {len(topic.partitions)} partitions, and messages are of partition {wanted}."
            raise UsageError(msg, "Messages go to the partition that they came from: add partitions.")

    def _ordered(self, view: View, found: OffsetRange, folder: Path) -> Iterator[pa.RecordBatch]:
        rules = self.stream.config.compaction
        orders = {self.stream.name: Order(tuple(POSITION))}
        spools = Spools(folder / f"{found.partition}-{found.start}", orders, rules.memory_per_task, 1 << 14)
        slot = Slot(self.stream.name, None)
        for rows in self._rows(view, found):
            spools.add(slot, rows)
        if spools.extents():
            for rows in spools.take(slot):
                yield as_messages(rows)

    def _rows(self, view: View, found: OffsetRange) -> Iterator[pa.Table]:
        records, sources = self.stream.records, Sources.of(view.timeline)
        roots = [root for root in records.roots() if root.topic == found.topic]
        if len(roots) != 1:
            what = "knows no topic" if not roots else "knows several topics of the name"
            raise UsageError(f"stream {self.stream.name} {what} {found.topic}.", "Look at `drystone trace message`.")
        plans = list(records.committed(roots[0].topic_id, found.partition, found.start, found.end))
        wanted = {part.source for each in plans for part in each.slices.slices if part.stream == self.stream.name}
        wanted = wanted.union(*(sources.late(each.plan, self.stream.name) for each in plans))
        end = found.end if found.end is not None else max((each.plan.end for each in plans), default=0)
        reads = Reads(Place.of(view), tuple(reads_of(view, wanted)))
        columns = [*POSITION, RAW_TIME, "key", "value", "headers"]
        for rows in kept_rows(reads, found.topic, found.partition, found.start, end):
            yield rows.select(columns)
