"""A past week, day by day, with Airflow's own backfill, into the stream that has a file per day."""

from __future__ import annotations

import flights
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from airflow_of_its_own import ROOT, prepared

import drystone
from drystone.reader import observe_stats
from drystone.rows.checksum import ContentChecksum
from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient, wait_until

pytestmark = [pytest.mark.scheduler, pytest.mark.slow, pytest.mark.timeout(900)]
STREAM = "flights_daily"
WEEK = [f"2013-01-{day:02d}" for day in range(1, 8)]


@pytest.fixture(scope="module")
def year() -> pa.Table:
    """The flights of 2013."""
    return flights.load()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, year: pa.Table) -> AirflowHome:
    """An Airflow with the demo's streams on a bucket of its own, and ten days of files; it does not run yet."""
    folder = tmp_path_factory.mktemp("backfill")
    flights.split_by_day(year, folder / "data" / "daily", 10)
    found = prepared(folder, (ROOT / "demo" / "drystone.yaml").read_text().replace("../build/demo/", ""))
    found.airflow("dags", "reserialize")
    return found


def backfill(home: AirflowHome, *more: str) -> list[dict[str, str]]:
    """Backfill the week by Airflow's command, then start Airflow and wait for its runs; return all runs.

    Airflow rests while they are made: SQLite refuses what another program writes between the command's read and write,
    and Airflow does not get over that.
    """
    dag = f"{STREAM}__ingest"
    home.airflow("backfill", "create", "--dag-id", dag, "--from-date", WEEK[0], "--to-date", WEEK[-1], *more)
    with home.running() as client:
        client.unpause(dag)
        wait_until(lambda: is_over(client), 600, "the backfill is over")
        return client.runs(dag)


def is_over(client: AirflowClient) -> bool:
    """Tell whether no backfill of the DAG is going on. Airflow looks every half minute."""
    backfills = client.call("GET", f"/backfills?dag_id={STREAM}__ingest")["backfills"]
    return bool(backfills) and all(backfill["completed_at"] for backfill in backfills)


def content(home: AirflowHome) -> ContentChecksum:
    """Rows and checksum of the stream, as read."""
    found = ContentChecksum()
    for batch in drystone.scan(f"file://{home.config_file.parent / 'bucket'}", STREAM):
        found.update(batch)
    return found


def test_a_week_is_ingested_by_day_and_again_without_doubling(home: AirflowHome, year: pa.Table) -> None:
    """Each day is a run with its own interval and files; the week again changes nothing; nothing else is ingested."""
    timed = flights.with_event_time(year)
    week = timed.filter(pc.is_in(pc.strftime(timed["event_time"], "%Y-%m-%d"), pa.array(WEEK)))
    truth = ContentChecksum().update(week)
    runs = backfill(home, "--max-active-runs", "4")
    past = [run for run in runs if run["run_type"] == "backfill"]
    assert [run["data_interval_start"][:10] for run in past] == WEEK
    assert {run["state"] for run in past} == {"success"}
    # A DAG that is unpaused gets the run of its last whole interval; years of them would be catching up.
    assert len(runs) <= len(past) + 1
    first = content(home)
    assert (first.rows, first.hex) == (truth.rows, truth.hex)
    stats = observe_stats(f"file://{home.config_file.parent / 'bucket'}", STREAM)
    assert stats.blocks_total == len(WEEK)

    again = backfill(home, "--reprocess-behavior", "completed")
    assert {run["state"] for run in again if run["run_type"] == "backfill"} == {"success"}
    second = content(home)
    assert (second.rows, second.hex) == (truth.rows, truth.hex)
    assert observe_stats(f"file://{home.config_file.parent / 'bucket'}", STREAM) == stats
