"""A stream's life on any bucket, in this process: the real verbs, whose tasks are pickled as if they went elsewhere."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
from lakes import CONFIG, HOUR, STREAM, Row, rows, values

from drystone.bucket import Bucket
from drystone.clock import Clock
from drystone.config.load import load
from drystone.coordination.none import NoCoordination
from drystone.engine.audit import Entry, append
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.pacer import ThreadPacer
from drystone.engine.record import read_record
from drystone.jobs import CompactRequest, DetectRequest, MarkRequest, SweepRequest
from drystone.reader.scanning import scan
from drystone.testing.streams import build_block, source_id, with_source, write_record
from drystone.tracker import ListingTracker
from drystone.verbs import compact, detect, removal

T = TypeVar("T")
R = TypeVar("R")


def ahead(ms: int) -> int:
    """Return the time, so many ms ahead."""
    return time.time_ns() // 1_000_000 + ms


@dataclass(frozen=True)
class Pickling:
    """Workers that are this process, and get nothing but what a pickle holds."""

    clock: Clock
    parallelism: int = 1

    def map(self, function: Callable[[T], R], tasks: Sequence[T], shares: int = 0) -> list[R]:  # noqa: ARG002 -- the protocol's
        """See `Workers.map`."""
        found = []
        for task in tasks:
            there, its = pickle.loads(pickle.dumps((function, task)))  # noqa: S301 -- our own bytes
            found.append(there(its))
        return found


@dataclass
class Life:
    """The stream `events` on a bucket whose clock nobody can set: time is passed by looking from later on."""

    bucket: Bucket
    folder: Path
    later: int = 0

    def __post_init__(self) -> None:
        """Begin with the stream's record."""
        self.folder.joinpath("drystone.yaml").write_text(CONFIG)
        self.config = load(self.folder / "drystone.yaml").stream(STREAM)
        write_record(self.bucket, STREAM, self.config)
        self.truth: list[Row] = []

    @property
    def clock(self) -> Clock:
        """The clock of all who take part."""
        return partial(ahead, self.later)

    def append(self, number: int) -> None:
        """Upload a block of 30 rows."""
        table = rows(number)
        now = self.clock()
        source = source_id(now // HOUR * HOUR, str(number))
        meta = build_block(self.bucket, STREAM, self.config, with_source(table, source), self.clock, row_group_rows=8)
        append(self.bucket, STREAM, [Entry("upload", meta.ulid, "a test", "run", now)], now)
        self.truth = sorted([*self.truth, *values(table)], key=lambda row: row[2])

    def wait(self) -> None:
        """Let an hour pass."""
        self.later += HOUR

    def job(self) -> Job:
        """Return a job's surroundings, now."""
        return Job(
            stream=STREAM,
            config=self.config,
            run="run",
            dry_run=False,
            bucket=self.bucket,
            record=read_record(self.bucket, STREAM),
            tracker=ListingTracker(self.bucket, STREAM),
            coordination=NoCoordination(),
            workers=Pickling(self.clock),
            clock=self.clock,
            pacer=ThreadPacer(),
        )

    def compact(self) -> list[str]:
        """Detect and compact; return the new blocks."""
        job = self.job()
        planned = detect.run(job, DetectRequest(kind="minor"))
        done = []
        for batch in planned.batches:
            request = CompactRequest(plan_key=planned.plan_key or "", batch=batch.number)
            done += self._good(compact.run(job, request)).blocks
        return done

    def mark(self) -> list[str]:
        """Mark; return the blocks that were."""
        return self._good(removal.run_mark(self.job(), MarkRequest())).blocks

    def sweep(self) -> list[str]:
        """Sweep; return the blocks that are gone."""
        return self._good(removal.run_sweep(self.job(), SweepRequest())).blocks

    def rows(self) -> list[Row]:
        """Return what a reader sees, now."""
        batches = list(scan(self.bucket, STREAM, now=self.clock))
        return values(pa.Table.from_batches(batches)) if batches else []

    def blocks(self) -> set[str]:
        """Return the folders of blocks that there are."""
        names = {found.key.split("/")[1] for found in self.bucket.list(f"{STREAM}/")}
        return {name for name in names if not name.startswith(".")}

    @staticmethod
    def _good(outcome: Outcome) -> Outcome:
        assert outcome.failures == [], outcome.failures
        return outcome
