"""`drystone airflow setup`, on a database of its own kind: Airflow's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.models import Pool
from airflow.models.connection import Connection
from airflow.utils.session import create_session
from typer.testing import CliRunner

from drystone.airflow.pools import SPARK_POOL, remover_pool
from drystone.airflow.setup import setup
from drystone.cli.app import app
from drystone.config.load import load


@pytest.fixture
def _nothing_set_up(database: Path) -> None:
    """Airflow's database as it is when it was just made."""
    with create_session() as session:
        for pool in (SPARK_POOL, remover_pool("events"), remover_pool("daily")):
            if there := Pool.get_pool(pool, session=session):
                session.delete(there)
        for connection in session.query(Connection).filter_by(conn_id="spark_default"):
            session.delete(connection)


@pytest.mark.usefixtures("_nothing_set_up")
def test_it_creates_what_is_missing_and_harms_nothing(config_file: Path) -> None:
    """The first run creates pools and connection and says so; the second changes nothing and says that."""
    loaded = load(config_file)
    assert setup(loaded) == [
        "pool drystone_spark: created with 3 slots",
        "pool drystone_remover_events: created with 1 slots",
        "pool drystone_remover_daily: created with 1 slots",
        "connection spark_default: created, master local[*]",
    ]
    assert Connection.get_connection_from_secrets("spark_default").host == "local[*]"
    assert all(line.endswith("as it was") for line in setup(loaded))


@pytest.mark.usefixtures("_nothing_set_up")
def test_pools_follow_the_configuration_and_connections_do_not(config_file: Path) -> None:
    """A pool gets the slots that the configuration says; a connection that somebody changed is left alone."""
    setup(load(config_file))
    with create_session() as session:
        session.query(Connection).filter_by(conn_id="spark_default").update({"host": "spark://there:7077"})
    config_file.write_text(config_file.read_text().replace("max_parallel_jobs: 3", "max_parallel_jobs: 5"))
    lines = setup(load(config_file))
    assert lines[0] == "pool drystone_spark: 3 slots, now 5"
    assert Pool.get_pool(SPARK_POOL).slots == 5
    assert lines[-1] == "connection spark_default: master spark://there:7077, as it was"


@pytest.mark.usefixtures("_nothing_set_up")
def test_the_terminal_sets_up(config_file: Path) -> None:
    """`drystone airflow setup` does the same, and tells it line by line, or as JSON."""
    command = ["airflow", "setup", "--config", str(config_file)]
    first = CliRunner().invoke(app, [*command, "--json"])
    assert (first.exit_code, json.loads(first.stdout)["done"][0]) == (0, "pool drystone_spark: created with 3 slots")
    again = CliRunner().invoke(app, command)
    assert [line.endswith("as it was") for line in again.stdout.splitlines()] == [True] * 4


def test_an_unprepared_database_is_named(tmp_path: Path, config_file: Path) -> None:
    """Without Airflow's tables the terminal says which database, and which command makes them, with exit code 2."""
    done = subprocess.run(
        [Path(sys.executable).parent / "drystone", "airflow", "setup", "--config", config_file],
        capture_output=True,
        text=True,
        env=os.environ | {"AIRFLOW_HOME": str(tmp_path / "home")},
        check=False,
    )
    assert done.returncode == 2
    assert f"{tmp_path}/home/airflow.db) is not ready. Run: airflow db migrate" in done.stderr
    assert "Traceback" not in done.stderr
