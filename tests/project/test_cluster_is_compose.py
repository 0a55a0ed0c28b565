"""`make cluster` starts what docker-compose.yaml describes: the same services, of the same size, in the same order."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import compose_file
import pytest
import yaml

from drystone.testing import kafka_jars, s3_server
from drystone.testing.airflow_home import AirflowHome
from drystone.testing.cluster import Cluster
from drystone.testing.cluster.service import Service, Step
from drystone.testing.cluster.spark import CONF, WORKERS
from drystone.testing.cluster.state import State


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, dict[str, Any]]:
    """The services of the compose file, as a parser understands it, with all that is optional."""
    return compose_file.services()


@pytest.fixture(scope="module")
def units(root: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Service | Step]:
    """The services and steps of a cluster that has never been up, by name."""
    folder = tmp_path_factory.mktemp("cluster")
    cluster = Cluster(folder, root / "demo/drystone.yaml", root / "dags", root / "plugins")
    return {unit.name: unit for unit in cluster.units(State(folder / "state.json"))}


def words(service: dict[str, Any]) -> list[str]:
    """The words of a service's command."""
    command = service["command"]
    return list(command) if isinstance(command, list) else command.split()


def options(command: list[str]) -> dict[str, str]:
    """The options of a command line that have a value."""
    return {word: value for word, value in pairwise(command) if word.startswith("--")}


def test_the_services_are_the_same(compose: dict[str, dict[str, Any]], units: dict[str, Service | Step]) -> None:
    """Each lasting service of the compose file is one of the cluster, each single step one of its steps; no more."""
    steps = {name for name, service in compose.items() if service.get("restart") == "no"}
    assert {name for name, unit in units.items() if isinstance(unit, Step)} == steps
    assert {name for name, unit in units.items() if isinstance(unit, Service)} == compose.keys() - steps


def test_they_wait_for_the_same(compose: dict[str, dict[str, Any]], units: dict[str, Service | Step]) -> None:
    """Each waits for the health, or the end, of the same others, all of which come before it."""
    for name, service in compose.items():
        assert set(units[name].needs) == set(service.get("depends_on", {})), name
    order = list(units)
    assert all(order.index(need) < order.index(name) for name, unit in units.items() for need in unit.needs)


def test_the_programs_are_the_same(compose: dict[str, dict[str, Any]], units: dict[str, Service | Step]) -> None:
    """Airflow's and Spark's services run the same programs, and workers have the same size."""
    for name, service in compose.items():
        unit = units[name]
        if "build" not in service or isinstance(unit, Step):
            continue
        theirs, ours = words(service), list(unit.command)
        program = ours[ours.index(theirs[0]) :] if theirs[0] in ours else [Path(ours[0]).name, *ours[1:]]
        assert program[:2] == theirs[:2], name
    for name in WORKERS:
        unit = units[name]
        assert isinstance(unit, Service)
        ours, theirs = options(list(unit.command)), options(words(compose[name]))
        assert [ours[size] for size in ("--cores", "--memory")] == [theirs[size] for size in ("--cores", "--memory")]


def test_jobs_are_of_the_same_size(root: Path) -> None:
    """A job takes as many cores of the containers' Spark as of the cluster's."""
    conf = yaml.safe_load((root / "docker/drystone.yaml").read_text())["spark"]["conf"]
    assert conf == {name: CONF[name] for name in ("spark.cores.max", "spark.executor.cores")}


def test_images_are_of_the_versions_that_run_here(compose: dict[str, dict[str, Any]]) -> None:
    """The S3 server and the broker of the compose file are those that the tests and the cluster start."""
    assert compose["s3"]["image"].endswith(f":v{s3_server.VERSION}")
    assert compose["kafka"]["image"].endswith(f":{kafka_jars.KAFKA}")


def test_airflow_is_told_the_same(
    root: Path, compose: dict[str, dict[str, Any]], units: dict[str, Service | Step], tmp_path: Path
) -> None:
    """Executor, database drivers, and the connections to Spark and to the store are of the same kind."""
    theirs = compose["scheduler"]["environment"]
    unit = units["scheduler"]
    assert isinstance(unit, Service)
    home = AirflowHome(tmp_path, root / "dags", root / "plugins", tmp_path / "none", database="u:p@h:1/n", port=1)
    ours = home._settings("http://127.0.0.1:1", 1)
    assert theirs["AIRFLOW__CORE__EXECUTOR"] == ours["core"]["executor"]
    interval = "orphaned_tasks_check_interval"
    assert str(theirs[f"AIRFLOW__SCHEDULER__{interval.upper()}"]) == ours["scheduler"][interval]
    for name, address in ours["database"].items():
        assert theirs[f"AIRFLOW__DATABASE__{name.upper()}"].partition("://")[0] == address.partition("://")[0]
    for name in ("AIRFLOW_CONN_SPARK_DEFAULT", "AIRFLOW_CONN_AWS_DEFAULT"):
        assert json.loads(unit.environment[name]).keys() == json.loads(theirs[name]).keys()
