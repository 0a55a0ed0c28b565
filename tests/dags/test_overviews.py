"""What is kept of a stream for the fleet's overview, and what it says of the runs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from drystone import jobs
from drystone.airflow.overviews import UNREADABLE, kept, kept_of_all, last_runs, look_and_keep, look_at_all
from drystone.airflow.run_report import JobReport, RunReport
from drystone.bucket import Bucket, LocalBucket
from drystone.config.load import Loaded, load
from drystone.errors import BucketError
from drystone.testing.streams import write_record
from drystone.verbs.overview import LastRuns

DAY = 86_400_000


@pytest.fixture
def loaded(config_file: Path) -> Loaded:
    """The configuration of the streams `events` and `daily`."""
    return load(config_file)


@pytest.fixture
def bucket(loaded: Loaded) -> LocalBucket:
    """Their bucket, in which both have a record."""
    found = LocalBucket(loaded.path.parent / "bucket")
    for stream, config in loaded.config.streams.items():
        write_record(found, stream, config)
    return found


def job(verb: jobs.Verb = "upload", *, dry_run: bool = False, **summary: int) -> JobReport:
    """A job of a report."""
    return JobReport(
        task=verb, verb=verb, ok=True, error="", started=1, ended=2, spark_start_ms=0, work_ms=1, blocks=1,
        summary=dict(summary), dry_run=dry_run,
    )  # fmt: skip


def run_of(at: int) -> str:
    """The id of a run, such that newer ones come first by their names."""
    return f"manual-{99 * DAY - at}"


def report(bucket: LocalBucket, workflow: str, at: int, *failed: str, dry_run: bool = False) -> None:
    """Leave the report of a run of `events`, as of a time in ms."""
    made = RunReport(
        stream="events",
        dag_id=f"events__{workflow}",
        run_id=run_of(at),
        failed=failed,
        jobs=(job(dry_run=dry_run),),
    )
    bucket.put(made.key, made.model_dump_json().encode())
    os.utime(bucket.path(made.key), (at / 1000, at / 1000))


def test_runs_are_told_by_workflow(bucket: LocalBucket) -> None:
    """Of each workflow the newest report counts, whatever its run's name; the last success may be an older one."""
    report(bucket, "ingest", 9 * DAY)
    report(bucket, "ingest", 10 * DAY, "upload")
    report(bucket, "lifecycle", 8 * DAY, "mark", "sweep")
    report(bucket, "verify", 7 * DAY)
    assert last_runs(bucket, "events") == {
        "ingest": LastRuns(ended=10 * DAY, succeeded=9 * DAY, failed=("upload",)),
        "lifecycle": LastRuns(ended=8 * DAY, succeeded=None, failed=("mark", "sweep")),
        "verify": LastRuns(ended=7 * DAY, succeeded=7 * DAY),
    }


def test_a_dry_run_is_no_success(bucket: LocalBucket) -> None:
    """A run that only showed what it would do does not count as one that succeeded."""
    report(bucket, "ingest", 9 * DAY)
    report(bucket, "ingest", 10 * DAY, dry_run=True)
    assert last_runs(bucket, "events")["ingest"].succeeded == 9 * DAY


def test_a_report_that_cannot_be_read_is_no_success(bucket: LocalBucket) -> None:
    """It is told as the newest run's failure, and the success before it still counts."""
    report(bucket, "ingest", 9 * DAY)
    report(bucket, "ingest", 10 * DAY)
    bucket.put(f"events/.reports/events__ingest.{run_of(10 * DAY)}.report.json", b"{")
    found = last_runs(bucket, "events")["ingest"]
    assert (found.failed, found.succeeded) == ((UNREADABLE,), 9 * DAY)


def test_what_was_seen_is_kept(bucket: LocalBucket, loaded: Loaded) -> None:
    """What is kept of a stream is what was seen, until somebody looks again; before that its row says so."""
    before = kept_of_all(loaded, lambda _: bucket)
    assert ["nobody has looked yet" in row.error for row in before] == [True, True]
    report(bucket, "ingest", 9 * DAY)
    seen = look_and_keep(bucket, "events", loaded.stream("events"), lambda: 10 * DAY)
    assert kept(bucket, "events") == seen
    assert (seen.at, seen.last_success()) == (10 * DAY, 9 * DAY)
    report(bucket, "ingest", 11 * DAY)
    assert kept_of_all(loaded, lambda _: bucket)[0] == seen


def test_a_stream_whose_bucket_fails_has_a_row_of_its_own(bucket: LocalBucket, loaded: Loaded) -> None:
    """Neither a store that fails nor a bug keeps another stream from being looked at, and from being kept."""

    def opener(stream: str) -> Bucket:
        if stream == "events":
            raise BucketError("the store is away.")
        return bucket

    events, daily = look_at_all(loaded, opener, keep=True)
    assert (events.error, daily.error) == ("the store is away.", "")
    assert daily.numbers is not None
    assert kept(bucket, "daily") == daily

    def buggy(stream: str) -> Bucket:
        return bucket if stream == "events" else {}[stream]

    events, daily = look_at_all(loaded, buggy, keep=False)
    assert (events.error, daily.error) == ("", "this should not happen: KeyError: 'daily'")


def test_malformed_data_is_kept_as_an_error(bucket: LocalBucket, loaded: Loaded) -> None:
    """What cannot be read in a stream is kept as its error, so that a page that only reads what is kept says so."""
    bucket.put("events/.stream.json", b"{")
    events, daily = look_at_all(loaded, lambda _: bucket, keep=True)
    assert "events/.stream.json cannot be read" in events.error
    assert kept_of_all(loaded, lambda _: bucket) == [events, daily]
