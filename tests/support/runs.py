"""The lifecycle's verbs in this process: what Spark's jobs do, with their tasks done one after the other."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from drystone import clock, ulids
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.coordination import NoCoordination
from drystone.engine.job import Job
from drystone.engine.local import LocalWorkers
from drystone.engine.outcome import Outcome
from drystone.engine.pacer import ThreadPacer
from drystone.engine.record import read_record
from drystone.jobs import CompactRequest, DetectRequest, MarkRequest, RepairRequest, SweepRequest
from drystone.plan.model import Reupload
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve
from drystone.tracker import ListingTracker
from drystone.verbs import compact, detect, removal, repair

T = TypeVar("T")
R = TypeVar("R")


class Pickling(LocalWorkers):
    """Workers that are this thread; everything goes there and comes back as if they were on another machine."""

    def map(self, function: Callable[[T], R], tasks: Sequence[T], shares: int = 0) -> list[R]:
        """See `Workers.map`."""
        del shares
        sent = (pickle.loads(pickle.dumps((function, task))) for task in tasks)  # noqa: S301 -- our own bytes
        return [pickle.loads(pickle.dumps(there(its))) for there, its in sent]  # noqa: S301 -- as above


@dataclass
class Runs:
    """The runs of one stream, whose record is there. Each verb raises AssertionError if an action failed."""

    bucket: Bucket
    stream: str
    config: StreamConfig
    clock: Clock = clock.system
    workers: Callable[[Clock], LocalWorkers] = LocalWorkers
    tracker: ListingTracker = field(init=False)

    def __post_init__(self) -> None:
        """Begin to track."""
        self.tracker = ListingTracker(self.bucket, self.stream)

    def observe(self) -> tuple[Snapshot, Timeline]:
        """Look at the stream."""
        snapshot = self.tracker.observe(self.clock())
        return snapshot, resolve(snapshot, self.config.times.times())

    def compact(self, kind: Literal["minor", "major", "rewrite"] = "minor") -> list[Outcome]:
        """Plan a compaction and do all of it; what fails is in the outcomes."""
        planned = detect.run(self.job(), DetectRequest(kind=kind))
        key = planned.plan_key or ""
        requests = [CompactRequest(plan_key=key, batch=batch.number) for batch in planned.batches]
        return [compact.run(self.job(), request) for request in requests]

    def mark(self) -> set[str]:
        """Take away the marks that nothing justifies, and set those that something does; return what was marked."""
        return _done(removal.run_mark(self.job(), MarkRequest()))

    def sweep(self) -> set[str]:
        """Delete what is due, and return it."""
        return _done(removal.run_sweep(self.job(), SweepRequest()))

    def repair(self, asked: RepairRequest, folder: Path) -> set[str]:
        """Plan a repair and do all of it; return the new blocks. Files that it names are below `folder`."""
        planned = repair.run(self.job(), asked, folder, _no_files)
        requests = [RepairRequest(plan_key=planned.plan_key, batch=batch.number) for batch in planned.batches]
        return {ulid for each in requests for ulid in _done(repair.run(self.job(), each, folder, _no_files))}

    def job(self, run: str = "") -> Job:
        """Return a job's surroundings, now; without a name the run gets one of its own."""
        return Job(
            stream=self.stream,
            config=self.config,
            run=run or f"run {ulids.new(self.clock())}",
            dry_run=False,
            bucket=self.bucket,
            record=read_record(self.bucket, self.stream),
            tracker=self.tracker,
            coordination=NoCoordination(),
            workers=self.workers(self.clock),
            clock=self.clock,
            pacer=ThreadPacer(),
        )


def _no_files(action: Reupload) -> list[str]:
    raise AssertionError(f"nobody asked for a file, and {action.path} is to be uploaded")


def _done(outcome: Outcome) -> set[str]:
    assert outcome.failures == []
    return set(outcome.blocks)
