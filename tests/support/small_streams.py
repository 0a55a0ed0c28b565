"""Small streams for jobs: input files of a few rows, and a reader that need not wait until blocks are ready."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pyspark.sql import SparkSession

from drystone import clock, scan
from drystone.bucket import Bucket, open_bucket
from drystone.config.load import Loaded, load
from drystone.jobs import REQUESTS, JobResult, Verb
from drystone.spark import jobs

STREAM = "events"
HOUR = 3_600_000
PLAIN: dict[str, Any] = {
    "labels": {"dataset": "events"},
    "time_column": "time",
    "sort_key": ["city", "time"],
    "schema": {"time": "timestamp", "city": "string", "count": "int32", "ratio": "float64"},
    "ingest": {"kind": "files", "path": "in/*", "format": "csv"},
}
HEADER = "time,city,count,ratio\n"
Row = dict[str, Any]


@dataclass
class Small:
    """A stream `events` in a folder of its own. `ahead`: by how many ms the driver's clock is ahead."""

    folder: Path
    spark: SparkSession
    ahead: list[int] = field(default_factory=lambda: [0])

    def configure(self, **changes: Any) -> None:
        """Write the configuration: the plain one with these changes; dictionaries are updated, None takes away."""
        stream = {key: dict(value) if isinstance(value, dict) else value for key, value in PLAIN.items()}
        for key, value in changes.items():
            if isinstance(value, dict) and key == "ingest":
                stream[key] |= value
            else:
                stream[key] = value
        document = {"version": 1, "bucket": "file:bucket", "streams": {STREAM: stream}}
        self.folder.joinpath("drystone.yaml").write_text(yaml.safe_dump(document, sort_keys=False))

    def put(self, name: str, content: str | bytes) -> Path:
        """Write an input file."""
        path = self.folder / "in" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    @property
    def loaded(self) -> Loaded:
        """The configuration."""
        return load(self.folder / "drystone.yaml")

    @property
    def bucket(self) -> Bucket:
        """The bucket."""
        return open_bucket(self.loaded.bucket_url(STREAM))

    def job(self, verb: Verb, run: str = "run", *, dry_run: bool = False, **request: object) -> JobResult:
        """Run a job in this process."""
        wanted = REQUESTS[verb].model_validate(request)
        return jobs.run(verb, self.loaded, STREAM, run, wanted, self.spark, dry_run=dry_run)

    def wait(self) -> None:
        """Let an hour pass, for everybody but Spark's workers: every block is ready, every mark is due."""
        self.ahead[0] += HOUR

    def rows(self) -> list[Row]:
        """Return every row that a reader sees, sorted by its values."""
        self.wait()
        found = pa.Table.from_batches(scan(self.bucket, STREAM), None) if self.blocks() else pa.table({})
        return sorted(found.to_pylist(), key=lambda row: [str(value) for value in row.values()])

    def blocks(self) -> list[str]:
        """Return the names of the block folders."""
        folder = self.folder / "bucket" / STREAM
        return sorted(path.name for path in folder.glob("0*")) if folder.exists() else []

    def names(self) -> set[str]:
        """Return the keys of all objects, without the reports of jobs."""
        return {item.key for item in self.bucket.list(f"{STREAM}/")}


def make_small(folder: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Small:
    """Return the stream, configured plainly, without input."""
    small = Small(folder, spark)
    monkeypatch.setattr(clock, "system", lambda: time.time_ns() // 1_000_000 + small.ahead[0])
    small.configure()
    return small
