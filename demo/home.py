"""Where the demo lives, and its Airflow: the same one for `make demo` and `make ui`."""

from __future__ import annotations

import signal
from pathlib import Path

from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient, wait_until

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "demo"
DATA = BUILD / "data"
CONFIG = ROOT / "demo" / "drystone.yaml"
STREAM = "flights"


# All but the one that has a schedule: it would begin with an empty run at once. Airflow's form can unpause it.
DAGS = [f"{STREAM}__{name}" for name in ("ingest", "lifecycle", "major_compaction")]
DAGS += [f"{STREAM}_daily__{name}" for name in ("lifecycle", "major_compaction")]


def airflow_home(config: Path = CONFIG) -> AirflowHome:
    """Return the demo's Airflow, in an ignored folder of the checkout."""
    return AirflowHome(ROOT / ".airflow", ROOT / "dags", ROOT / "plugins", config)


def stop_on_signals() -> None:
    """Let SIGTERM and SIGINT both end the program in an orderly way, even where a shell has it ignore SIGINT."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


def unpause(client: AirflowClient) -> None:
    """Wait until the DAGs are there, and let them run."""
    wait_until(lambda: all(client.has_dag(dag) for dag in DAGS), 60, "The DAGs are there")
    for dag in DAGS:
        client.unpause(dag)
