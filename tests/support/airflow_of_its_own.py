"""Starts a real Airflow for tests that need its scheduler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient, wait_until

ROOT = Path(__file__).resolve().parents[2]


def prepared(folder: Path, config: str) -> AirflowHome:
    """Return an Airflow in a folder, with a configuration file, set up; it does not run yet."""
    file = folder / "drystone.yaml"
    file.write_text(config)
    home = AirflowHome(folder / "airflow", ROOT / "dags", ROOT / "plugins", file)
    home.prepare()
    home.drystone("airflow", "setup")
    return home


@contextmanager
def running(folder: Path, config: str, *dags: str) -> Iterator[tuple[AirflowHome, AirflowClient]]:
    """Start such an Airflow; yield it when the named DAGs are unpaused."""
    home = prepared(folder, config)
    with home.running() as client:
        wait_until(lambda: all(client.has_dag(dag) for dag in dags), 60, f"DAGs {dags}")
        for dag in dags:
            client.unpause(dag)
        yield home, client
