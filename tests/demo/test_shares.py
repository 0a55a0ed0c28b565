"""The demo's account of its wall time."""

from __future__ import annotations

import pytest

from drystone.jobs import JobResult
from drystone.testing.airflow_rest import Task
from drystone.testing.wall_time import split


def job(started: float, ended: float, spark_start: float) -> JobResult:
    """A job that worked between two moments (s), after Spark took so long to start."""
    return JobResult(
        verb="mark",
        stream="s",
        run="r",
        ok=True,
        started=round(started * 1000),
        ended=round(ended * 1000),
        spark_start_ms=round(spark_start * 1000),
    )


def wait(start: float, end: float | None) -> Task:
    """A sensor's task instance."""
    return Task("ready", -1, "", "success", 1, start, end)


def test_what_happens_at_once_counts_once() -> None:
    """Each second has one name: work before Spark's start before a delay; what is left is Airflow's."""
    jobs = [job(10, 20, 4), job(15, 30, 8), job(50, 60, 5)]
    found = split(0, 100, jobs, [wait(28, 40), wait(58, 70), wait(90, None)])
    assert found.work == pytest.approx(20 + 10)
    assert found.spark_start == pytest.approx(4 + 5)
    assert found.delays == pytest.approx(10 + 10)
    assert found.airflow == pytest.approx(100 - 30 - 9 - 20)


def test_only_the_time_asked_for_counts() -> None:
    """What began before or ended after is cut off."""
    found = split(100, 110, [job(90, 105, 10)], [wait(104, 200)])
    assert (found.work, found.spark_start, found.delays, found.airflow) == pytest.approx((5, 0, 5, 0))
