"""A drop folder whose files change: the real upload verb, with rows that are read from JSON where Spark would read."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from buckets import Spy
from lakes import CONFIG, DAY, FIRST_DAY, HOUR, SCHEMA, STREAM
from runs import Runs

from drystone import scan
from drystone.block.chunks import chunk_at
from drystone.block.folder import Folder
from drystone.block.schema import Column, Schema
from drystone.bucket import Bucket, MemoryBucket
from drystone.config.load import load
from drystone.config.model import StreamConfig
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.record import apply_config
from drystone.ingest.blocks import BuiltSource, local_path, prepared
from drystone.ingest.files import PlannedFile
from drystone.rows.arrow_schema import from_arrow
from drystone.testing.streams import ManualClock
from drystone.verbs import upload

Content = dict[int, list[int]]
"""The counts of a file's rows, by day."""


@dataclass
class Drop:
    """A stream of files in a folder, by default one that replaces what has changed."""

    folder: Path
    on_change: str = "replace"
    clock: ManualClock = field(default_factory=lambda: ManualClock(FIRST_DAY + 400 * DAY))

    @property
    def bucket(self) -> Bucket:
        """The bucket, whose times are those of the clock."""
        return MemoryBucket(str(self.folder), self.clock)

    @property
    def config(self) -> StreamConfig:
        """The stream's configuration."""
        path = self.folder / f"{self.on_change}.yaml"
        if not path.exists():
            text = CONFIG.replace("format: csv", f"format: csv, on_change: {self.on_change}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return load(path).stream(STREAM)

    def put(self, content: Content, name: str = "a") -> None:
        """Write a file."""
        path = self.folder / "input" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))

    def ingest(self, name: str = "a", bucket: Bucket | Spy | None = None, run: str = "run") -> Outcome:
        """Ingest a file, a second later than all before."""
        self.clock.now += 1000
        there, config = bucket or self.bucket, self.config
        apply_config(there, STREAM, config)
        job = Runs(there, STREAM, config, self.clock).job(run)
        files = [self.folder / "input" / name]
        return upload.run(job, files, self.folder, lambda todo, folders: _build(job, todo, folders))

    def wait(self) -> None:
        """Let an hour pass: every block is ready, every mark is due."""
        self.clock.now += HOUR

    def rows(self) -> list[int]:
        """Return the counts that a reader sees, sorted."""
        found = list(scan(self.bucket, STREAM, now=self.clock))
        return sorted(count for batch in found for count in batch.column("count").to_pylist())

    def settle(self) -> int:
        """Run the lifecycle until nothing is left to do; return how many blocks there are then."""
        runs = Runs(self.bucket, STREAM, self.config, self.clock)
        for _ in range(6):
            self.wait()
            for outcome in [*runs.compact("minor"), *runs.compact("major")]:
                assert outcome.failures == []
            self.wait()
            runs.mark()
            self.wait()
            runs.sweep()
        return len(self.blocks())

    def blocks(self) -> list[str]:
        """Return the names of the block folders."""
        folders = {item.key.split("/")[1] for item in self.bucket.list(f"{STREAM}/")}
        return sorted(name for name in folders if not name.startswith("."))


def _build(job: Job, todo: Sequence[PlannedFile], folders: Collection[Folder]) -> list[BuiltSource]:
    schema = Schema(columns=tuple(Column(name=each.name, type=each.type) for each in from_arrow(SCHEMA).columns))
    builder = upload.block_builder(job, schema, todo, folders)
    batches = [_batch(file) for file in todo]
    starts = {
        local_path(path): set(batch.column("__chunk").to_pylist())
        for batch in batches
        for path in batch.column("__path").unique().to_pylist()
    }
    empty: list[BuiltSource] = []
    if any(file.plan.listed for file in todo):
        builder = prepared(builder, starts)
        empty = builder.upload_empty()
    lines = [line for batch in builder(iter(batches)) for line in batch.column("result").to_pylist()]
    return [*empty, *(BuiltSource.model_validate_json(line) for line in lines)]


def _batch(file: PlannedFile) -> pa.RecordBatch:
    content = {int(day): counts for day, counts in json.loads(file.location.read_text()).items()}
    days = [day for day, counts in sorted(content.items()) for _ in counts]
    counts = [count for _, found in sorted(content.items()) for count in sorted(found)]
    times = [(FIRST_DAY + day * DAY) for day in days]
    columns = {
        "time": pa.array([time * 1000 for time in times], SCHEMA.field("time").type),
        "city": pa.array(["Oslo"] * len(days)),
        "count": pa.array(counts, pa.int32()),
        "ratio": pa.nulls(len(days), pa.float64()),
        "__path": pa.array([f"file://{file.location.resolve()}"] * len(days), pa.string()),
        "__chunk": pa.array([chunk_at(time, "day").start for time in times], pa.int64()),
    }
    return pa.RecordBatch.from_pydict(columns)
