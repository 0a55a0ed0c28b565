"""Spark: a standalone master and two workers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from drystone.testing.cluster.service import Service, ask, environment
from drystone.testing.cluster.state import State

WORKERS = ("spark-worker-1", "spark-worker-2")
CORES, MEMORY = 2, "2g"
"""Of each worker: room for an executor of each of two jobs at once."""
_SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
_CLASS = "org.apache.spark.deploy"
CONF = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "1g",
    "spark.executor.extraJavaOptions": _SMALL,
}
"""What a job takes of it: a core of each worker."""


def services(folder: Path, state: State) -> list[Service]:
    """Return the master and its workers; `folder` is for what the workers keep of applications."""
    return [_master(state), *(_worker(name, folder / name, state) for name in WORKERS)]


def master_url(state: State) -> str:
    """Return the master's address."""
    return f"spark://127.0.0.1:{state.port('spark-master')}"


def _master(state: State) -> Service:
    port, page = state.port("spark-master"), state.port("spark-master page")
    where = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page)]
    return Service(
        name="spark-master",
        address=f"{master_url(state)}  http://127.0.0.1:{page}",
        command=[_program(), f"{_CLASS}.master.Master", *where],
        environment=_environment(),
        healthy=lambda _: bool(ask(f"http://127.0.0.1:{page}/json/")),
    )


def _worker(name: str, work: Path, state: State) -> Service:
    port, page = state.port(name), state.port(f"{name} page")
    where = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page), "--work-dir", str(work)]
    size = ["--cores", str(CORES), "--memory", MEMORY]
    master_page = f"http://127.0.0.1:{state.port('spark-master page')}/json/"

    def healthy(_: float) -> bool:
        workers = (ask(master_page) or {}).get("workers", [])
        known = any(each["port"] == port and each["state"] == "ALIVE" for each in workers)
        return known and bool(ask(f"http://127.0.0.1:{page}/json/"))

    return Service(
        name=name,
        address=f"http://127.0.0.1:{page}",
        command=[_program(), f"{_CLASS}.worker.Worker", *where, *size, master_url(state)],
        environment=_environment(),
        healthy=healthy,
        needs=["spark-master"],
    )


def _program() -> str:
    return str(Path(sys.executable).with_name("spark-class"))


def _environment() -> dict[str, str]:
    """Spark finds itself by the Python on the PATH, and its pages would be open to other machines."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return environment(PATH=programs, SPARK_LOCAL_IP="127.0.0.1", SPARK_DAEMON_JAVA_OPTS=_SMALL)
