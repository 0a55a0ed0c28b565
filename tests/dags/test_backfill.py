"""A past week, day by day, with Airflow's own backfill, into the stream that has a file per day."""

from __future__ import annotations

from collections.abc import Iterator

import flights
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from airflow_of_its_own import ROOT, running

import drystone
from drystone.engine.checksum import ContentChecksum
from drystone.reader import observe_stats
from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient, AirflowError, wait_until

pytestmark = [pytest.mark.scheduler, pytest.mark.slow, pytest.mark.timeout(900)]
STREAM = "flights_daily"
WEEK = [f"2013-01-{day:02d}" for day in range(1, 8)]


@pytest.fixture(scope="module")
def year() -> pa.Table:
    """The flights of 2013."""
    return flights.load()


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, year: pa.Table) -> Iterator[tuple[AirflowHome, AirflowClient]]:
    """An Airflow with the demo's streams on a bucket of its own, and ten days of files."""
    folder = tmp_path_factory.mktemp("backfill")
    flights.split_by_day(year, folder / "data" / "daily", 10)
    config = (ROOT / "demo" / "drystone.yaml").read_text().replace("../build/demo/", "")
    with running(folder, config, f"{STREAM}__ingest") as found:
        yield found


def backfill(home: AirflowHome, client: AirflowClient, *more: str) -> list[dict[str, str]]:
    """Backfill the week by Airflow's command, and wait for its runs.

    The DAG is paused while they are made. SQLite refuses what another program writes between this one's read and write;
    Airflow then takes back what it has made so far, under which a scheduler that already works on it breaks down.
    """
    client.pause(f"{STREAM}__ingest")
    command = ["backfill", "create", "--dag-id", f"{STREAM}__ingest", "--from-date", WEEK[0], "--to-date", WEEK[-1]]
    for left in reversed(range(10)):
        try:
            home.airflow(*command, *more)
            break
        except AirflowError as error:
            if not left or "database is locked" not in str(error):
                raise
    client.unpause(f"{STREAM}__ingest")
    wait_until(lambda: is_over(client), 600, "the backfill is over")
    return of_backfills(client)


def is_over(client: AirflowClient) -> bool:
    """Tell whether no backfill of the DAG is going on. Airflow looks every half minute."""
    backfills = client.call("GET", f"/backfills?dag_id={STREAM}__ingest")["backfills"]
    return all(backfill["completed_at"] for backfill in backfills)


def of_backfills(client: AirflowClient) -> list[dict[str, str]]:
    """The runs that backfills made."""
    return [run for run in client.runs(f"{STREAM}__ingest") if run["run_type"] == "backfill"]


def content(home: AirflowHome) -> ContentChecksum:
    """Rows and checksum of the stream, as read."""
    found = ContentChecksum()
    for batch in drystone.scan(f"file://{home.config_file.parent / 'bucket'}", STREAM):
        found.update(batch)
    return found


def test_a_week_is_ingested_by_day_and_again_without_doubling(
    airflow: tuple[AirflowHome, AirflowClient], year: pa.Table
) -> None:
    """Each day is a run with its own interval and reads its own files; the week again changes nothing."""
    home, client = airflow
    timed = flights.with_event_time(year)
    week = timed.filter(pc.is_in(pc.strftime(timed["event_time"], "%Y-%m-%d"), pa.array(WEEK)))
    truth = ContentChecksum().update(week)
    runs = backfill(home, client, "--max-active-runs", "4")
    assert [run["data_interval_start"][:10] for run in runs] == WEEK
    assert {run["state"] for run in runs} == {"success"}
    first = content(home)
    assert (first.rows, first.hex) == (truth.rows, truth.hex)
    stats = observe_stats(f"file://{home.config_file.parent / 'bucket'}", STREAM)
    assert stats.blocks_total == len(WEEK)

    again = backfill(home, client, "--reprocess-behavior", "completed")
    assert {run["state"] for run in again} == {"success"}
    second = content(home)
    assert (second.rows, second.hex) == (truth.rows, truth.hex)
    assert observe_stats(f"file://{home.config_file.parent / 'bucket'}", STREAM) == stats


def test_a_scheduled_stream_does_not_catch_up_by_itself(airflow: tuple[AirflowHome, AirflowClient]) -> None:
    """Apart from backfills there is at most the run of the last whole day: years are not ingested by accident."""
    _, client = airflow
    own = [run for run in client.runs(f"{STREAM}__ingest") if run["run_type"] != "backfill"]
    assert len(own) <= 1
