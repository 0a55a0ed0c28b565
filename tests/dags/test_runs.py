"""Names of runs, which become keys in the bucket."""

from __future__ import annotations

import re

import pytest

from drystone import jobs
from drystone.airflow.runs import job_name, results_prefix, run_name

RUN = "manual__2026-01-01T00:00:00.5+00:00"


def test_a_retry_has_the_same_name() -> None:
    """The same task instance has the same name; another run, task or map index has another."""
    names = [
        job_name("d", "scheduled__2026-01-01T00:00:00+00:00", "t"),
        job_name("d", RUN, "t"),
        job_name("d", RUN, "t", 0),
        job_name("d", RUN, "t", 1),
        job_name("e", RUN, "t"),
        job_name("d", RUN, "u"),
    ]
    assert len(set(names)) == len(names)
    assert names[0] == "d.scheduled__2026-01-01T00:00:00+00:00.t"
    assert job_name("d", RUN, "t", 1) == names[3]


@pytest.mark.parametrize("run_id", [RUN, "a/b", "a b", "ü" * 300, "x" * 300, "..", "a.b"])
def test_names_are_safe_keys(run_id: str) -> None:
    """Whatever people call a run, its name has only safe characters, and its key fits a file system."""
    name = job_name("d" * 150, run_id, "t" * 60, 4711)
    assert re.fullmatch(r"[A-Za-z0-9._+:-]+", name)
    assert len(f"{name}.json") <= 255


def test_names_that_look_alike_stay_apart() -> None:
    """Two runs whose names become the same safe text still have two names."""
    assert len({run_name("d", run) for run in ("a.b", "a_b", "a b", "a/b")}) == 4


def test_one_listing_finds_all_results_of_a_run() -> None:
    """The results of a run's tasks share a prefix that no other run's have."""
    prefix = results_prefix("s", "d", "run")
    assert jobs.result_key("s", job_name("d", "run", "t", 3)).startswith(prefix)
    assert not jobs.result_key("s", job_name("d", "run.t", "t")).startswith(prefix)
    assert not jobs.result_key("s", job_name("d", "run2", "t")).startswith(prefix)
