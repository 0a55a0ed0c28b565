"""What a merge takes in memory: the real job by spark-submit, for inputs of very different size."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from benchmarks import data
from benchmarks.bench import Bench
from benchmarks.lake import STREAM, Lake, fill, make_lake
from benchmarks.processes import Finished, watch
from benchmarks.table import Table
from drystone import jobs
from drystone.bucket import open_bucket
from drystone.jobs import JobResult

DAYS = 31
SIZES = (0, 2_000_000, 20_000_000)
"""Rows of the month. The first merge has a row per day: what it takes, any worker takes."""
_MIB = 2**20


class NotMeasuredError(Exception):
    """The job failed."""


def measure(bench: Bench) -> list[Table]:
    """Return one table: a row per size, with the peaks of the process tree and of its parts."""
    lakes = [_month(bench, rows) for rows in SIZES]
    budget = lakes[0].loaded.stream(STREAM).compaction.memory_per_task
    table = Table(
        f"Memory of a merge: {DAYS} days into a month by spark-submit, memory_per_task {budget // _MIB} MiB",
        ("rows", "input MB", "seconds", "whole tree MiB", "JVM", "Python workers", "driver", "biggest worker (RSS)"),
    )
    workers = []
    for lake in lakes:
        size = lake.bytes / 1e6
        finished, result = _compact(bench, lake)
        peaks = finished.peaks
        workers.append(peaks.worker)
        shown = (peaks.total, peaks.jvm, peaks.workers, peaks.driver, peaks.worker)
        rows = f"{int(result.summary['rows']):,}"
        seconds = f"{result.work_ms / 1000:.1f}"
        table.rows.append((rows, f"{size:.0f}", seconds, *(f"{each / _MIB:.0f}" for each in shown)))
        shutil.rmtree(lake.folder)
    table.notes += _notes(workers, budget)
    return [table]


def _notes(workers: list[int], budget: int) -> list[str]:
    idle, used = workers[0] / _MIB, (max(workers) - workers[0]) / _MIB
    verdict = "met" if used * _MIB <= budget else "**missed**"
    grown, input_grown = workers[2] / workers[1], SIZES[2] / SIZES[1]
    return [
        f"A worker that merges next to nothing takes {idle:.0f} MiB; the biggest merge takes {used:.0f} MiB more.",
        f"memory_per_task allows {budget / _MIB:.0f} MiB more: {verdict}.",
        f"From the second size to the third the input grows {input_grown:.0f} times, the worker {grown:.2f} times.",
        "Sampled every 50 ms. Proportional set sizes, so that shared pages count once; RSS for the biggest worker.",
        "The JVM's heap is bounded by spark.driver.memory, 1 GiB here.",
    ]


def _month(bench: Bench, rows: int) -> Lake:
    lake = make_lake(bench.folder / f"month-{rows}", "day", "month", target_block_bytes="4GiB")
    per_day = max(1, round(rows * bench.scale) // DAYS)
    fill(lake, data.of_day, [(day, per_day) for day in range(DAYS)], bench.cores)
    return lake


def _compact(bench: Bench, lake: Lake) -> tuple[Finished, JobResult]:
    """Plan, then run the compaction in a Spark of its own, watched."""
    plan = lake.job(bench.spark, "detect", "detect", kind="major")
    request = jobs.CompactRequest(plan_key=plan.plan_key or "", batch=0).model_dump_json()
    command = [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", f"local[{bench.cores}]", "--driver-memory", "1g", "--conf", "spark.ui.enabled=false"),
        *(str(jobs.script("compact")), "--config", str(lake.loaded.path), "--stream", STREAM),
        *("--run", "measured", "--request", request),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    finished = watch(command, environment | {"PATH": path, "PYSPARK_PYTHON": sys.executable})
    if finished.code:
        raise NotMeasuredError(finished.said[-2000:])
    raw = open_bucket(lake.url).get(jobs.result_key(STREAM, "measured"))
    return finished, JobResult.model_validate_json(raw)
