"""Streams to measure on: real blocks by the real writer, copies of them at no cost, and the real jobs."""

from __future__ import annotations

import math
import multiprocessing
import os
import shutil
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pyspark.sql import SparkSession

from benchmarks import data
from drystone import clock
from drystone.bucket import Bucket, open_bucket
from drystone.config.load import Loaded, load
from drystone.jobs import REQUESTS, JobResult, Verb
from drystone.reader import files
from drystone.spark import jobs
from drystone.testing.streams import ManualClock, build_block, source_id, with_source, write_record

STREAM = "flights"
SYNC_DELAY = 12
"""Seconds. Blocks made here are dated back, so that only what a job makes has to wait."""
_PAST = 3_600_000
_WORTH_PROCESSES = 500_000
_DERIVE = {"event_time": "time_hour + make_dt_interval(0, 0, minute, 0)"}

MakeRows = Callable[..., pa.Table]


class JobFailedError(Exception):
    """A job of Drystone failed: there is nothing to measure."""


@dataclass(frozen=True)
class Lake:
    """A folder with a configuration of one stream, its bucket beside it."""

    folder: Path

    @property
    def loaded(self) -> Loaded:
        """The configuration."""
        return load(self.folder / "drystone.yaml")

    @property
    def bucket(self) -> Bucket:
        """The stream's bucket."""
        return open_bucket(self.url)

    @property
    def url(self) -> str:
        """The bucket's address."""
        return self.loaded.bucket_url(STREAM)

    @property
    def chunks(self) -> list[Path]:
        """All chunk files of all blocks, visible or not."""
        return sorted((self.folder / "bucket" / STREAM).glob("*/chunks/*.parquet"))

    @property
    def visible(self) -> list[Path]:
        """The chunk files that a reader reads now."""
        return [Path(file.uri.removeprefix("file://")) for file in files(self.bucket, STREAM)]

    @property
    def bytes(self) -> int:
        """Bytes of all chunk files."""
        return sum(path.stat().st_size for path in self.chunks)

    def linked(self, folder: Path) -> Lake:
        """Return the same lake in another folder: files are hard links, for nobody changes one."""
        shutil.copytree(self.folder, folder, copy_function=os.link)
        return Lake(folder)

    def configure(self, **compaction: object) -> None:
        """Change the stream's compaction."""
        path = self.folder / "drystone.yaml"
        document = yaml.safe_load(path.read_text())
        document["streams"][STREAM]["compaction"] |= compaction
        path.unlink()  # It may be a hard link.
        path.write_text(yaml.safe_dump(document, sort_keys=False))

    def job(self, spark: SparkSession, verb: Verb, run: str, **request: object) -> JobResult:
        """Run a job in this process; raise JobFailedError if it fails."""
        wanted = REQUESTS[verb].model_validate(request)
        result = jobs.run(verb, self.loaded, STREAM, run, wanted, spark)
        if not result.ok:
            raise JobFailedError(f"{verb}: {result.error}")
        return result

    def compact(self, spark: SparkSession, kind: str) -> int:
        """Plan a compaction and execute it; return the rows that were written."""
        plan = self.job(spark, "detect", f"detect-{kind}", kind=kind)
        results = [
            self.job(spark, "compact", f"compact-{kind}-{batch.number}", plan_key=plan.plan_key, batch=batch.number)
            for batch in plan.batches
        ]
        return sum(int(result.summary["rows"]) for result in results)


def make_lake(folder: Path, ingest: str, major: str, **compaction: object) -> Lake:
    """Return a lake without blocks, its time chunks as given; its ingest takes data/*.csv in the folder."""
    demo = yaml.safe_load((data.DEMO / "drystone.yaml").read_text())
    stream: dict[str, Any] = demo["streams"][STREAM]
    stream |= {
        "sort_key": list(data.SORT_KEY),
        "granularity": {"ingest": ingest, "major": major},
        "times": {
            "allow_short_delays": True,
            "sync_delay": f"{SYNC_DELAY}s",
            "upload_timeout": f"{SYNC_DELAY - 1}s",
            "clock_skew": "1s",
        },
        "compaction": compaction,
        "ingest": {
            "path": "data/*.csv",
            "format": "csv",
            "options": {"nullValue": "NA"},
            "derive": _DERIVE,
        },
    }
    folder.mkdir(parents=True)
    document = {"version": 1, "bucket": "file:bucket", "streams": {STREAM: stream}}
    (folder / "drystone.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    lake = Lake(folder)
    write_record(lake.bucket, STREAM, lake.loaded.stream(STREAM))
    return lake


def fill(lake: Lake, make: MakeRows, arguments: Sequence[tuple[int, ...]], cores: int) -> None:
    """Add a first-generation block for each of `arguments`, of the rows that `make` returns for it, old enough.

    The last of the arguments is the number of rows.
    """
    now = clock.system() - _PAST
    work = [(lake.folder, make, each, now + number) for number, each in enumerate(arguments)]
    if sum(each[-1] for each in arguments) < _WORTH_PROCESSES:
        for each in work:
            _add(each)
        age(lake)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(cores, mp_context=context) as pool:
        list(pool.map(_add, work, chunksize=max(1, len(work) // (4 * cores))))
    age(lake)


def _add(work: tuple[Path, MakeRows, tuple[int, ...], int]) -> None:
    folder, make, arguments, now = work
    lake = Lake(folder)
    config = lake.loaded.stream(STREAM)
    rows = with_source(make(*arguments), source_id(now, f"{make.__name__}-{arguments}"))
    row_groups = config.compaction.row_group_rows
    build_block(lake.bucket, STREAM, config, rows, ManualClock(now), row_group_rows=row_groups)


def age(lake: Lake) -> None:
    """Date every meta.json back, as if the block had been uploaded an hour ago."""
    then = time.time() - _PAST / 1000
    for path in (lake.folder / "bucket").glob("*/*/meta.json"):
        os.utime(path, (then, then))


def parquet_rows(paths: Iterable[Path]) -> int:
    """Return how many rows the files have together."""
    return sum(int(pq.read_metadata(path).num_rows) for path in paths)


def outputs_of(lake: Lake, outputs: int) -> int:
    """Return the target size at which a merge of the whole lake has this many outputs."""
    whole = sum(path.stat().st_size for path in (lake.folder / "bucket" / STREAM).rglob("*") if path.is_file())
    return math.ceil(whole / outputs)
