"""Where the wall time went: to Spark's start, to work, to the delays that the design asks for, or to Airflow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from drystone.block import keys
from drystone.bucket import Bucket
from drystone.jobs import JobResult
from drystone.testing.airflow_rest import Task

Span = tuple[float, float]


@dataclass(frozen=True)
class Shares:
    """Seconds of wall time. What happens at once counts once, as the first of these that it is."""

    work: float
    spark_start: float
    delays: float
    airflow: float


def results_in(bucket: Bucket, stream: str) -> list[JobResult]:
    """Return the results of all jobs of a stream, from its bucket."""
    found = []
    for info in bucket.list(keys.reports(stream)):
        raw = json.loads(bucket.get(info.key))
        if "verb" in raw:
            found.append(JobResult.model_validate(raw))
    return found


def split(begin: float, end: float, results: Sequence[JobResult], sensors: Sequence[Task]) -> Shares:
    """Split the time between two moments (seconds since the epoch)."""
    work = [(result.started / 1000, result.ended / 1000) for result in results]
    starts = [(at - result.spark_start_ms / 1000, at) for result, (at, _) in zip(results, work, strict=True)]
    delays = [(task.start, task.end) for task in sensors if task.start is not None and task.end is not None]
    whole = [(begin, end)]
    working = _length(whole, work)
    starting = _length(whole, work + starts) - working
    waiting = _length(whole, work + starts + delays) - working - starting
    return Shares(working, starting, waiting, end - begin - working - starting - waiting)


def _length(whole: list[Span], spans: Sequence[Span]) -> float:
    """Return how much of `whole`, one span, the union of `spans` covers."""
    ((reached, end),) = whole
    total = 0.0
    for low, high in sorted(spans):
        new = min(high, end) - max(low, reached)
        if new > 0:
            total += new
            reached = min(high, end)
    return total
