"""The world of one simulated life: a stream, its bucket, time, chance, and what is true."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from drystone.bucket import Bucket, MemoryBucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.coordination import NoCoordination
from drystone.engine.job import Job
from drystone.engine.record import apply_config
from drystone.testing.invariants import BrokenInvariantError
from drystone.testing.simulation.choices import Choices
from drystone.testing.simulation.faulty import CALM, STORMY, FaultyBucket, Surroundings, Weather
from drystone.testing.simulation.lagging import Change, Lag, LaggingBucket
from drystone.testing.simulation.scheduler import Scheduler, SimulatedPacer
from drystone.testing.simulation.truth import Truth
from drystone.timeline.timeline import resolve
from drystone.tracker import ListingTracker

T = TypeVar("T")
R = TypeVar("R")
STREAM = "life"
BEGIN = 1_700_000_000_000
MINUTE = 60_000
_CONFIG: dict[str, Any] = {
    "labels": {"stream": STREAM},
    "time_column": "time",
    "sort_key": ["time", "number"],
    "schema": {"time": "timestamp", "kind": "string", "number": "int64"},
    "granularity": {"ingest": "hour", "major": "day"},
    "ingest": {"kind": "files", "path": "*", "format": "json"},
    "compaction": {"target_block_bytes": "15KB", "row_group_rows": 1024},
}
SLEEPY = Weather(sleep=60, naps=(10 * MINUTE, 20 * MINUTE, 20 * MINUTE, 40 * MINUTE), lose=200)
WEATHERS = (STORMY, CALM, SLEEPY, Weather(crash=60, sleep=100), Weather(refuse=40, lose=40, tear=20))

TWICE = 10
"""Of so many tasks one is done twice."""


class InTurn:
    """Runs the tasks of a job one after the other, some of them twice. See `drystone.engine.job.Workers`."""

    parallelism = 2

    def __init__(self, around: Surroundings, clock: Clock) -> None:
        """`clock`: the tasks' own."""
        self._around = around
        self.clock = clock

    def expect(self, tasks: int, size: int = 0) -> None:
        """Take on anything."""

    def map(self, function: Callable[[T], R], tasks: Sequence[T], shares: int = 0) -> list[R]:
        """See `Workers.map`."""
        del shares
        return [self._run(function, task) for task in tasks]

    def _run(self, function: Callable[[T], R], task: T) -> R:
        result = function(task)
        if self._around.weather is not CALM and self._around.choices.happens(TWICE):
            self._around.tally["tasks that ran twice"] += 1
            return function(task)
        return result


@dataclass(frozen=True, slots=True)
class Client:
    """A program's way to the stream: its bucket, its clock, its name."""

    name: str
    bucket: FaultyBucket
    clock: Clock


class World:
    """Everything that the actors of one life share. `folder`: for local files."""

    def __init__(self, choices: Choices, folder: Path) -> None:
        """Begin with an empty stream."""
        self.choices = choices
        self.folder = folder
        self.scheduler = Scheduler(BEGIN)
        self.until = BEGIN
        self.rewritten: set[str] = set()
        self.replaced: set[str] = set()
        self.backed_up = False
        self.around = Surroundings(self.scheduler, choices, choices.pick(WEATHERS))
        max_lag = choices.pick((0, 5_000, MINUTE))
        rules = _CONFIG["compaction"] | {"max_group_bytes": choices.pick(("1GB", "20KB", "32KB"))}
        changes = {"times": {"max_lag": f"{max_lag}ms"}, "compaction": rules}
        self.config = StreamConfig.model_validate(_CONFIG | changes)
        self.times = self.config.times.times()
        self.true_bucket = _empty(lambda: self.scheduler.now)
        self.truth = Truth(self.true_bucket, STREAM, self.times, self.config.granularity.ingest)
        self.truth.tally = self.around.tally
        self.lag = Lag(choices.seed, lambda: self.scheduler.now, max_lag, self._changed)
        self.record = apply_config(self.true_bucket, STREAM, self.config)
        self._observer = ListingTracker(self.true_bucket, STREAM)
        self._clients = 0

    def client(self, name: str, offset: int = 0, *, sleeps: bool = True) -> Client:
        """Return a way to the bucket that nobody has gone before. `offset`: of its clock, in ms."""
        self._clients += 1
        name = f"{name}/{self._clients}"
        view = LaggingBucket(self.true_bucket, self.lag, name)
        bucket = FaultyBucket(view, self.around, sleeps=sleeps)
        return Client(name, bucket, lambda: self.scheduler.now + offset)

    def job(self, client: Client, run: str) -> Job:
        """Return the surroundings of a job's run."""
        bucket: Bucket = client.bucket
        return Job(
            stream=STREAM,
            config=self.config,
            run=run,
            dry_run=False,
            bucket=bucket,
            record=apply_config(bucket, STREAM, self.config),
            tracker=ListingTracker(bucket, STREAM),
            coordination=NoCoordination(),
            workers=InTurn(self.around, client.clock),
            clock=client.clock,
            pacer=SimulatedPacer(self.scheduler),
        )

    def check(self) -> None:
        """Invariant 1, as somebody sees the stream who sees everything: what is due is visible."""
        now = self.scheduler.now
        self.truth.advance(now)
        timeline = resolve(self._observer.observe(now), self.times)
        seen: set[str] = set()
        for visible in timeline.visible.values():
            seen |= visible.group.sources - visible.excluded
        due = self.truth.due(now - self.times.clock_skew) - self.truth.lost.keys() - seen
        due = {source for source in due if not self.truth.replaced(source, now + self.times.clock_skew)}
        if lost := {source for source in due if self.truth.kept([source], before=now)}:
            raise BrokenInvariantError(f"1: sources that are due and not visible: {sorted(lost)}")

    def _changed(self, change: Change) -> None:
        try:
            if self.truth.changed(change):
                self.check()
        except BrokenInvariantError as error:
            self.scheduler.fail(error)


def _empty(clock: Clock) -> MemoryBucket:
    """Return a bucket without an object: this process's own, so that a thousand lives take the memory of one."""
    bucket = MemoryBucket(f"simulation-{os.getpid()}", clock)
    bucket.delete([item.key for item in bucket.list("")])
    return bucket
