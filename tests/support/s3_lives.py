"""A stream's life on any bucket, in this process: the real verbs, whose tasks are pickled as if they went elsewhere."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
from lakes import CONFIG, HOUR, STREAM, Row, rows, values
from runs import Pickling, Runs

from drystone.bucket import Bucket
from drystone.clock import Clock
from drystone.config.load import load
from drystone.engine.audit import Entry, append
from drystone.reader.scanning import scan
from drystone.testing.streams import build_block, source_id, with_source, write_record


def ahead(ms: int) -> int:
    """Return the time, so many ms ahead."""
    return time.time_ns() // 1_000_000 + ms


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

    @property
    def runs(self) -> Runs:
        """Runs of somebody who has not looked at the stream before."""
        return Runs(self.bucket, STREAM, self.config, self.clock, Pickling)

    def compact(self) -> list[str]:
        """Detect and compact; return the new blocks."""
        outcomes = self.runs.compact()
        assert [outcome.failures for outcome in outcomes if outcome.failures] == []
        return [ulid for outcome in outcomes for ulid in outcome.blocks]

    def mark(self) -> list[str]:
        """Mark; return the blocks that were."""
        return sorted(self.runs.mark())

    def sweep(self) -> list[str]:
        """Sweep; return the blocks that are gone."""
        return sorted(self.runs.sweep())

    def rows(self) -> list[Row]:
        """Return what a reader sees, now."""
        batches = list(scan(self.bucket, STREAM, now=self.clock))
        return values(pa.Table.from_batches(batches)) if batches else []

    def blocks(self) -> set[str]:
        """Return the folders of blocks that there are."""
        names = {found.key.split("/")[1] for found in self.bucket.list(f"{STREAM}/")}
        return {name for name in names if not name.startswith(".")}
