"""Streams of flights for tests: short delays, a folder of their own, and a lifecycle in a few calls."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import flights
import pyarrow as pa
import yaml
from pyspark.sql import SparkSession

from drystone import scan
from drystone.bucket import Bucket, open_bucket
from drystone.config.load import Loaded, load
from drystone.jobs import REQUESTS, JobResult, Verb
from drystone.rows.checksum import ContentChecksum
from drystone.spark import jobs

DEMO = Path(flights.__file__).parent
SYNC_DELAY = 2.0
DELETE_DELAY = 6.0


@dataclass
class Flights:
    """A stream `flights` in a folder of its own, with input files, and what it must hold once they are ingested."""

    folder: Path
    loaded: Loaded
    bucket: Bucket
    truth: flights.Truth

    @property
    def config(self) -> Path:
        """The configuration file."""
        return self.loaded.path

    def job(self, spark: SparkSession, verb: Verb, run: str, *, dry_run: bool = False, **request: object) -> JobResult:
        """Run one job in this process."""
        wanted = REQUESTS[verb].model_validate(request)
        return jobs.run(verb, self.loaded, "flights", run, wanted, spark, dry_run=dry_run)

    def compact(self, spark: SparkSession, kind: str) -> list[JobResult]:
        """Plan and execute a compaction of this kind, and wait until its blocks are ready."""
        plan = self.job(spark, "detect", f"detect-{kind}", kind=kind, batches=2)
        assert plan.ok, plan.error
        done = [
            self.job(spark, "compact", f"compact-{kind}-{batch.number}", plan_key=plan.plan_key, batch=batch.number)
            for batch in plan.batches
        ]
        time.sleep(SYNC_DELAY if done else 0)
        return done

    def clean_up(self, spark: SparkSession) -> tuple[JobResult, JobResult]:
        """Mark, wait for deleteDelay, sweep."""
        marked = self.job(spark, "mark", "mark")
        time.sleep(DELETE_DELAY + 1)  # A mark's time is rounded up to whole seconds.
        return marked, self.job(spark, "sweep", "sweep")

    def lifecycle(self, spark: SparkSession) -> None:
        """Take the stream through its life once; everything must succeed."""
        time.sleep(SYNC_DELAY)
        results = [*self.compact(spark, "minor"), *self.compact(spark, "major"), *self.clean_up(spark)]
        assert all(result.ok for result in results), [result.error for result in results]

    def read(self) -> flights.Truth:
        """Return what a reader sees now: rows, and the checksum of all columns, recomputed."""
        checksum = ContentChecksum()
        for batch in scan(self.bucket, "flights"):
            checksum.update(batch)
        return flights.Truth(checksum.rows, checksum.hex)


def make_stream(folder: Path, data: pa.Table, **changes: object) -> Flights:
    """Write one input file per origin and a configuration with delays of seconds; `changes` go into the stream."""
    flights.split_by_origin(data, folder / "data")
    demo = yaml.safe_load((DEMO / "drystone.yaml").read_text())
    stream = demo["streams"]["flights"]
    stream["ingest"]["path"] = "data/flights_*.csv"
    stream["times"] = {
        "allow_short_delays": True,
        "sync_delay": f"{SYNC_DELAY}s",
        "upload_timeout": f"{SYNC_DELAY - 0.1}s",
        "clock_skew": "100ms",
        "delete_delay": f"{DELETE_DELAY}s",
        "read_timeout": "5s",
        "group_timeout": "1s",
    }
    stream.update(changes)
    config = folder / "drystone.yaml"
    document = {"version": 1, "bucket": "file:bucket", "spark": demo["spark"], "streams": {"flights": stream}}
    config.write_text(yaml.safe_dump(document, sort_keys=False))
    loaded = load(config)
    return Flights(folder, loaded, open_bucket(loaded.bucket_url("flights")), flights.truth(data))
