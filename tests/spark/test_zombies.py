"""Work that is done twice: two drivers at once, and Spark tasks that run again after their block was uploaded."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from flight_streams import SYNC_DELAY, Flights
from kills import kill_python_workers
from pyspark.sql import SparkSession

import drystone
from drystone.reader import observe_stats

pytestmark = [pytest.mark.long, pytest.mark.spark]


@contextmanager
def exact_reads(stream: Flights) -> Iterator[list[object]]:
    """Read the stream over and over while the block runs; every read must be exact."""
    reads: list[object] = []
    stop = threading.Event()

    def reader() -> None:
        while not stop.is_set():
            reads.append(stream.read())

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(reader)
        try:
            yield reads
        finally:
            stop.set()
        running.result()
    assert set(reads) == {stream.truth}
    assert len(reads) > 2


def assert_clean(stream: Flights) -> None:
    """One whole block is left, and it holds every row once."""
    stats = observe_stats(stream.bucket, "flights")
    assert (stats.blocks_total, stats.blocks_visible, stats.blocks_marked) == (1, 1, 0)
    assert stream.read() == stream.truth


def test_two_drivers_at_once(spark: SparkSession, stream: Flights) -> None:
    """An upload, then a compaction, run twice at once: reads stay exact, and the next run cleans up."""
    with ThreadPoolExecutor(2) as pool:
        twice = list(pool.map(lambda run: stream.job(spark, "upload", run), ("driver", "zombie")))
    assert all(result.ok for result in twice), [result.error for result in twice]
    time.sleep(SYNC_DELAY)
    assert observe_stats(stream.bucket, "flights").blocks_total > 93, "both uploaded"

    with exact_reads(stream):
        plan = stream.job(spark, "detect", "detect", kind="minor", batches=1)
        with ThreadPoolExecutor(2) as pool:
            twice = list(
                pool.map(
                    lambda run: stream.job(spark, "compact", run, plan_key=plan.plan_key, batch=0), ("driver", "zombie")
                )
            )
        assert all(result.ok for result in twice), [result.error for result in twice]
        assert sum(int(result.summary["blocks_out"]) for result in twice) > 31, "both compacted"
        stream.lifecycle(spark)
    assert_clean(stream)


def test_spark_tasks_that_run_again_after_their_upload(spark: SparkSession, stream: Flights) -> None:
    """A worker is killed after it has uploaded blocks: Spark runs its task again, and nobody reads a row twice."""
    with ThreadPoolExecutor(1) as pool:
        upload = pool.submit(stream.job, spark, "upload", "upload")
        metas = f"{stream.folder}/bucket/flights"
        deadline = time.monotonic() + 60
        while len(list(Path(metas).glob("0*/meta.json"))) < 5:
            assert time.monotonic() < deadline, "no blocks"
            assert not upload.done(), upload.result().error
            time.sleep(0.005)
        workers = kill_python_workers()
        result = upload.result()
    assert workers
    assert result.ok, result.error
    total = observe_stats(stream.bucket, "flights").blocks_total
    assert total > 93, "what the first attempts uploaded is there too"
    time.sleep(SYNC_DELAY)
    with exact_reads(stream):
        frame = drystone.read(spark, stream.bucket, "flights")
        assert frame.count() == stream.truth.rows
        stream.lifecycle(spark)
    assert_clean(stream)
