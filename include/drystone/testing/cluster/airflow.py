"""Airflow's four programs on PostgreSQL, told of Spark and of the store by connections, as docker-compose.yaml does."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from drystone.testing.airflow_home import COMPONENTS, AirflowHome
from drystone.testing.cluster.service import Service, Step, ask
from drystone.testing.cluster.state import State
from drystone.testing.s3_server import S3Server

INIT = "airflow-init"
_HEALTH = "/api/v2/monitor/health"
_NEEDS = {"scheduler": ("api-server", "spark-master")}
"""Beside the step `INIT`, which all need."""


def connections(state: State, store: S3Server) -> dict[str, str]:
    """Return the variables that tell Airflow where Spark is, and who its tasks are to the store."""
    spark = {"conn_type": "spark", "host": "spark://127.0.0.1", "port": state.port("spark-master")}
    aws = {"conn_type": "aws", "login": store.access_key, "password": store.secret_key}
    return {"AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(spark), "AIRFLOW_CONN_AWS_DEFAULT": json.dumps(aws)}


def initial_step(home: AirflowHome) -> Step:
    """Return the step that brings configuration and database up to date, and makes the pools."""

    def act() -> None:
        home.prepare()
        home.drystone("airflow", "setup")

    return Step(name=INIT, act=act, needs=["postgres"])


def services(home: AirflowHome) -> list[Service]:
    """Return the programs, in an order in which they can start."""
    url = f"http://127.0.0.1:{home.port}"
    order = ("api-server", "dag-processor", "triggerer", "scheduler")
    return [
        Service(
            name=name,
            address=url if name == "api-server" else "",
            command=[sys.executable, "-m", "airflow", name, *COMPONENTS[name]],
            # Programs that change their title would write it over the mark of the cluster.
            environment=home.variables() | {"SPT_NOENV": "1", "SPARK_LOCAL_IP": "127.0.0.1"},
            healthy=lambda since, name=name: _healthy(ask(url + _HEALTH), name, since),  # type: ignore[misc]
            needs=[INIT, *_NEEDS.get(name, ())],
        )
        for name in order
    ]


def _healthy(found: Mapping[str, Any] | None, name: str, since: float) -> bool:
    """Tell what the api-server says of a program: that it has shown a sign of life since it was started."""
    if name == "api-server" or not found:
        return bool(found)
    key = name.replace("-", "_")
    said = found.get(key) or {}
    beat: str = said.get(f"latest_{key}_heartbeat") or "1970-01-01T00:00:00Z"
    return said.get("status") == "healthy" and datetime.fromisoformat(beat).timestamp() >= since
