"""Where the demo lives, and its Airflow: the same one for `make demo` and `make ui`."""

from __future__ import annotations

from pathlib import Path

from drystone.testing.airflow_home import AirflowHome

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build" / "demo"
DATA = BUILD / "data"
CONFIG = ROOT / "demo" / "drystone.yaml"
STREAM = "flights"


def airflow_home() -> AirflowHome:
    """Return the demo's Airflow, in an ignored folder of the checkout."""
    return AirflowHome(ROOT / ".airflow", ROOT / "dags", ROOT / "plugins", CONFIG)
