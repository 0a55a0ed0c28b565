"""A stream under load: appenders that never stop, and a lifecycle that merges, marks and deletes beside them.

Everything is real but the clock: a round of the lifecycle begins 20 minutes after the one before. Whoever is in the
middle of an upload then is too late, takes back what it wrote, and starts again: a slow writer.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Lock

import numpy as np
import pyarrow as pa
import tracked
from runs import Runs
from tracked import Counting, Stream

import drystone
from drystone.block import keys
from drystone.block.marks import DELETION_MARK
from drystone.block.meta import META_FILE
from drystone.bucket.protocol import Bucket, ObjectInfo
from drystone.clock import Clock, system
from drystone.config.model import StreamConfig
from drystone.errors import UploadTimeoutError
from drystone.testing.streams import ManualClock, build_block, source_id, with_source, write_record
from drystone.timeline.timeline import Timeline
from drystone.tracker import ListingTracker

STREAM = "events"
ROWS = 3
"""Rows of a block."""
DAYS = 8
_ROUND = 20 * 60_000
_DAY = 86_400_000
_FIRST = 1_600_000_000_000 // _DAY * _DAY
_MOST_ROUNDS = 30
"""After the last append, the stream must have come to rest within so many rounds."""


@dataclass
class Ahead:
    """The machine's clock, moved on by hand. `ms`: by how much it is ahead."""

    ms: int = 0

    def __call__(self) -> int:
        """Return the time."""
        return time.time_ns() // 1_000_000 + self.ms


class Metered:
    """A bucket that counts its requests by verb, whichever thread they come from."""

    def __init__(self, inner: Bucket) -> None:
        """`inner`: the bucket that does the work."""
        self.inner = inner
        self.requests: Counter[str] = Counter()
        self._lock = Lock()

    def _count(self, verb: str) -> None:
        with self._lock:
            self.requests[verb] += 1

    @property
    def url(self) -> str:
        """See Bucket."""
        return self.inner.url

    def uri(self, key: str) -> str:
        """See Bucket."""
        return self.inner.uri(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See Bucket."""
        self._count("LIST")
        return self.inner.list(prefix, start_after)

    def head(self, key: str) -> ObjectInfo:
        """See Bucket."""
        self._count("HEAD")
        return self.inner.head(key)

    def get(self, key: str) -> bytes:
        """See Bucket."""
        self._count("GET")
        return self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See Bucket."""
        self._count("GET range")
        return self.inner.get_range(key, start, length)

    def put(self, key: str, data: bytes) -> None:
        """See Bucket."""
        self._count("PUT")
        self.inner.put(key, data)

    def create(self, key: str, data: bytes) -> None:
        """See Bucket."""
        self._count("PUT")
        self.inner.create(key, data)

    def upload(self, key: str, path: Path) -> None:
        """See Bucket."""
        self._count("PUT")
        self.inner.upload(key, path)

    def delete(self, keys: Iterable[str]) -> None:
        """See Bucket. A key is a request."""
        for key in keys:
            self._count("DELETE")
            self.inner.delete([key])


def config() -> StreamConfig:
    """Return the stream's configuration."""
    return StreamConfig.model_validate(
        {
            "labels": {"dataset": "events"},
            "time_column": "time",
            "sort_key": ["time"],
            "schema": {"time": "timestamp", "number": "int64"},
            "ingest": {"path": "in/*", "format": "csv"},
            "compaction": {"target_block_bytes": "16MB", "max_bytes_per_run": "48MB", "min_inputs": 4},
        }
    )


@dataclass
class Appender:
    """One of the writers. `late`: uploads that took too long and were done again; `twice`: those done for nothing."""

    bucket: Bucket
    clock: Clock
    number: int
    of: int
    acknowledged: dict[str, int] = field(default_factory=dict)
    late: int = 0
    twice: int = 0
    stopped: bool = False

    def run(self, blocks: int) -> None:
        """Append every source of its share of so many blocks; now and then one that is there already."""
        dice = Random(self.number)
        for block in range(self.number, blocks, self.of):
            if self.stopped:
                return
            for again in range(2 if dice.randint(0, 99) == 0 else 1):
                self._append(block)
                self.twice += again

    def _append(self, block: int) -> None:
        source = source_id(_FIRST, str(block))
        rows = with_source(rows_of(block), source)
        while True:
            try:
                build_block(self.bucket, STREAM, _CONFIG, rows, self.clock)
            except UploadTimeoutError:
                self.late += 1
                continue
            self.acknowledged.setdefault(source, self.clock())
            return


_CONFIG = config()


def rows_of(block: int) -> pa.Table:
    """Return the rows of a block: numbers that no other block has, somewhen in a day."""
    numbers = np.arange(block * ROWS, (block + 1) * ROWS)
    times = (_FIRST + block % DAYS * _DAY + numbers * 7919 % _DAY) * 1000
    return pa.table({"time": pa.array(times, pa.timestamp("us", "UTC")), "number": numbers})


@dataclass
class Loaded:
    """What happened. `peak`: the most memory that the process had, in bytes. Requests are counted by verb."""

    blocks: int
    late: int = 0
    twice: int = 0
    lost: int = 0
    rounds: int = 0
    outputs: int = 0
    deleted: int = 0
    most_folders: int = 0
    seconds: float = 0
    peak: int = 0
    appends: Counter[str] = field(default_factory=Counter)
    lifecycle: Counter[str] = field(default_factory=Counter)


class LostError(AssertionError):
    """A row that was acknowledged is not read, or one is read twice."""


def run(bucket: Bucket, blocks: int, appenders: int, *, say: Callable[[str], object] = lambda _: None) -> Loaded:
    """Append so many blocks by so many writers while the lifecycle runs, until it is at rest; return what happened.

    Raises LostError as soon as a source that was acknowledged a syncDelay ago is not read, and at the end unless every
    row is read once.
    """
    found, began = Loaded(blocks), time.monotonic()
    writing, working = Metered(bucket), Metered(bucket)
    ahead = Ahead()
    writers = [Appender(writing, ahead, number, appenders) for number in range(appenders)]
    with ThreadPoolExecutor(appenders) as pool:
        write_record(bucket, STREAM, _CONFIG)
        life = _Life(Runs(working, STREAM, _CONFIG, ahead), ahead, writers, found)
        futures = [pool.submit(writer.run, blocks) for writer in writers]
        try:
            life.beside(futures, say)
        finally:
            for writer in writers:
                writer.stopped = True
        life.rest()
        found.lost = check_rows(bucket, blocks, ahead)
    found.late, found.twice = sum(each.late for each in writers), sum(each.twice for each in writers)
    found.appends, found.lifecycle = writing.requests, working.requests
    found.seconds, found.peak = time.monotonic() - began, peak_memory()
    return found


def _raise_early(futures: Iterable[Future[None]]) -> None:
    for future in futures:
        if future.done():
            future.result()


@dataclass
class _Life:
    runs: Runs
    ahead: Ahead
    writers: list[Appender]
    found: Loaded

    def beside(self, writing: Sequence[Future[None]], say: Callable[[str], object]) -> None:
        """Do round after round as long as anybody writes."""
        while not all(future.done() for future in writing):
            _raise_early(writing)
            self.round()
            say(
                f"round {self.found.rounds}: {sum(len(writer.acknowledged) for writer in self.writers):,} blocks "
                f"appended, {self.found.most_folders:,} folders at most, {self.found.deleted:,} deleted"
            )
        _raise_early(writing)

    def round(self) -> bool:
        """Let 20 minutes go by, then merge, mark and delete; return whether anything was done."""
        self.ahead.ms += _ROUND
        self.found.rounds += 1
        due = self._due()
        snapshot, timeline = self.runs.observe()
        self.found.most_folders = max(self.found.most_folders, len(snapshot.folders))
        check_held(timeline, due)
        merged = self.runs.compact()
        failures = [failure for outcome in merged for failure in outcome.failures]
        if failures:
            raise LostError(f"{len(failures)} merges failed: {failures[0]}")
        marked, deleted = self.runs.mark(), self.runs.sweep()
        self.found.outputs += sum(len(outcome.blocks) for outcome in merged)
        self.found.deleted += len(deleted)
        return bool(merged or marked or deleted)

    def _due(self) -> set[str]:
        """Return the sources that every reader must see by now."""
        limit = self.ahead() - self.runs.config.times.sync_delay
        return {source for writer in self.writers for source, when in list(writer.acknowledged.items()) if when < limit}

    def rest(self) -> None:
        """Go on until there is nothing left to do; raise LostError if that does not come."""
        for _ in range(_MOST_ROUNDS):
            # What was uploaded or marked in a round is due in the next but one, at the latest.
            if not any([self.round(), self.round(), self.round()]):
                return
        raise LostError(f"the lifecycle has not come to rest in {3 * _MOST_ROUNDS} rounds")


def check_held(timeline: Timeline, due: set[str]) -> None:
    """Raise LostError unless a visible block holds each of these sources, and nothing is damaged."""
    held = timeline.holders.get((0, 0))
    lost = {source for source in due if held is None or source not in held}
    if lost or timeline.damage:
        raise LostError(f"{len(lost)} sources are not read, such as {min(lost, default='')}; {timeline.damage[:3]}")


def check_rows(bucket: Bucket, blocks: int, clock: Clock = system) -> int:
    """Return how many rows a reader does not get exactly once, which is 0; else raise LostError."""
    batches = drystone.scan(bucket, STREAM, columns=["number"], now=clock)
    numbers = np.concatenate([batch.column("number").to_numpy() for batch in batches])
    kinds = np.unique(numbers)
    wrong = len(np.setxor1d(kinds, np.arange(blocks * ROWS))) + len(numbers) - len(kinds)
    if wrong:
        raise LostError(f"{len(numbers):,} rows are read, {len(kinds):,} different ones, of {blocks * ROWS:,}")
    return wrong


def peak_memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass(frozen=True)
class Observed:
    """Two looks at a stream: how long each took, in seconds, and what was asked of the bucket."""

    blocks: int
    first_seconds: float
    first_lists: list[str]
    first_gets: int
    again_seconds: float
    again_lists: list[str]
    again_gets: list[str]
    new: list[str]


def observe_twice(bucket: Bucket, blocks: int, appended: int = 10, marked: int = 3) -> Observed:
    """Observe so many blocks; then again, when a few were appended and marked. `new`: the keys that are new."""
    asked = Counting(bucket)
    moment = ManualClock(_FIRST)
    stream = Stream(asked, moment, ListingTracker(asked, tracked.STREAM))
    there = [stream.block(str(number)) for number in range(blocks)]
    first = _timed(stream)
    lists, gets = list(asked.lists), len(asked.gets)
    asked.gets.clear()
    asked.lists.clear()
    moment.advance(_ROUND)
    new = [keys.block(tracked.STREAM, stream.block(f"new {number}"), META_FILE) for number in range(appended)]
    for ulid in there[:marked]:
        stream.mark(ulid)
        new.append(keys.block(tracked.STREAM, ulid, DELETION_MARK))
    again = _timed(stream)
    return Observed(blocks, first, lists, gets, again, asked.lists, asked.gets, new)


def _timed(stream: Stream) -> float:
    began = time.monotonic()
    stream.tracker.observe(stream.clock.now)
    return time.monotonic() - began
