"""docker-compose.yaml is one that compose takes, by its schema and by a parser, and refers to what exists."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from drystone.bucket.s3_address import parse as parse_address
from drystone.config.load import load

BIN = Path(sys.executable).parent
ALL = ("--profile", "s3", "--profile", "kafka")
# The parser asks the container engine for its version before it reads anything. Any program that answers will do.
ENGINE = shutil.which("echo") or "/bin/echo"


def parse(folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Let podman-compose interpolate, merge and print the file of a folder, with all that is optional."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DRYSTONE_")}
    return subprocess.run(
        [BIN / "podman-compose", "--podman-path", ENGINE, *ALL, "config"],
        cwd=folder,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def compose(root: Path) -> dict[str, Any]:
    """The file as the parser understands it."""
    run = parse(root, DRYSTONE_SECRET="s" * 64, DRYSTONE_S3_SECRET="s3-secret")
    assert run.returncode == 0, run.stderr
    document: dict[str, Any] = yaml.safe_load(run.stdout)
    return document


def copy_with(root: Path, folder: Path, old: str, new: str) -> Path:
    """Copy the file to a folder with one change."""
    text = (root / "docker-compose.yaml").read_text()
    assert old in text
    (folder / "docker-compose.yaml").write_text(text.replace(old, new))
    return folder


def schema_check(path: Path) -> int:
    """Return the exit code of a check against the schema of the compose specification."""
    command = [BIN / "check-jsonschema", "--builtin-schema", "vendor.compose-spec", path]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_it_follows_the_specification(root: Path, tmp_path: Path) -> None:
    """The file is valid by the compose specification's schema, and one with a misspelt key is not."""
    assert schema_check(root / "docker-compose.yaml") == 0
    copy_with(root, tmp_path, "healthcheck:", "healthchek:")
    assert schema_check(tmp_path / "docker-compose.yaml") != 0


def test_a_parser_takes_it(root: Path, tmp_path: Path) -> None:
    """A compose parser takes the file, and refuses one with a volume that nothing declares."""
    assert parse(root, DRYSTONE_SECRET="s").returncode == 0
    copy_with(root, tmp_path, "- bucket:/bucket", "- buket:/bucket")
    assert "buket" in parse(tmp_path, DRYSTONE_SECRET="s").stderr


def test_the_secret_has_no_default(root: Path) -> None:
    """Without DRYSTONE_SECRET nothing starts, and the message says what to set."""
    run = parse(root)
    assert run.returncode != 0
    assert "DRYSTONE_SECRET" in run.stderr


def test_dependencies_exist_and_can_be_met(compose: dict[str, Any]) -> None:
    """A service waits only for services that exist; for a healthy one only if that has a health check."""
    services = compose["services"]
    for name, service in services.items():
        for other, how in service.get("depends_on", {}).items():
            assert other in services, f"{name} waits for {other}"
            if how["condition"] == "service_healthy":
                assert "healthcheck" in services[other], f"{name} waits for the health of {other}"
            if how["condition"] == "service_completed_successfully":
                assert services[other].get("restart") == "no", f"{name} waits for the end of {other}"


def test_every_lasting_service_says_whether_it_is_healthy(compose: dict[str, Any]) -> None:
    """Every service that is not a single step has a health check."""
    lasting = {name for name, service in compose["services"].items() if service.get("restart") != "no"}
    assert {name for name in lasting if "healthcheck" not in compose["services"][name]} == set()


def test_volumes_are_declared_and_used(compose: dict[str, Any]) -> None:
    """Every named volume that a service mounts is declared, and every declared one is mounted."""
    mounts = [mount for service in compose["services"].values() for mount in service.get("volumes", [])]
    named = {mount.partition(":")[0] for mount in mounts if not mount.startswith((".", "/"))}
    assert named == compose["volumes"].keys()


def test_mounted_files_exist(compose: dict[str, Any], root: Path) -> None:
    """Every file of the checkout that a service mounts is there; the folder for input is the user's to fill."""
    mounts = {mount for service in compose["services"].values() for mount in service.get("volumes", [])}
    sources = {mount.partition(":")[0] for mount in mounts if mount.startswith("./")}
    assert "./data" in sources
    assert [source for source in sources - {"./data"} if not (root / source).is_file()] == []


def test_ports_are_open_to_this_machine_only(compose: dict[str, Any]) -> None:
    """Every published port is bound to the loopback address, and no two services publish the same."""
    ports = [port for service in compose["services"].values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.rpartition(":")[0] for port in ports}) == len(ports)


def test_images_are_pinned_or_built(compose: dict[str, Any], root: Path) -> None:
    """Every image is built from this checkout under the library's version, or has a tag other than `latest`."""
    version = re.search(r'^version = "(.+)"', (root / "pyproject.toml").read_text(), re.MULTILINE)
    assert version is not None
    for name, service in compose["services"].items():
        if "build" in service:
            assert service["image"] == f"drystone:{version[1]}", name
        else:
            assert re.fullmatch(r"[a-z/]+:[\w.-]+", service["image"]), name
            assert not service["image"].endswith(":latest"), name


def test_all_of_drystone_runs_the_same_image_and_configuration(compose: dict[str, Any]) -> None:
    """Airflow's services and Spark's workers have one image, one configuration file and one bucket."""
    ours = {name: service for name, service in compose["services"].items() if "build" in service}
    assert len({service["image"] for service in ours.values()}) == 1
    assert ours.keys() >= {"api-server", "scheduler", "dag-processor", "triggerer", "spark-worker-1", "spark-worker-2"}
    for name, service in ours.items():
        if name != "spark-master":
            assert "bucket:/bucket" in service["volumes"], name
            assert "./docker/drystone.yaml:/etc/drystone/drystone.yaml:ro" in service["volumes"], name


def test_airflow_finds_spark(compose: dict[str, Any]) -> None:
    """The connection that Airflow submits by names the service that runs Spark's master, at the port it is given."""
    services = compose["services"]
    connection = json.loads(services["scheduler"]["environment"]["AIRFLOW_CONN_SPARK_DEFAULT"])
    host = connection["host"].removeprefix("spark://")
    assert host in services
    assert f"--port {connection['port']}" in " ".join(services[host]["command"])
    assert f"spark://{host}:{connection['port']}" in " ".join(services["spark-worker-1"]["command"])


def test_airflow_finds_the_store(compose: dict[str, Any], root: Path) -> None:
    """The optional store takes the key and secret that Airflow's connection has, where the how-to says that it is."""
    store = compose["services"]["s3"]
    connection = json.loads(compose["services"]["scheduler"]["environment"]["AIRFLOW_CONN_AWS_DEFAULT"])
    assert store["environment"]["ROOT_ACCESS_KEY_ID"] == connection["login"]
    assert store["environment"]["ROOT_SECRET_ACCESS_KEY"] == connection["password"] == "s3-secret"
    page = (root / "docs/how-to/docker-compose.md").read_text()
    found = re.search(r"^bucket: (s3://.*)$", page, re.MULTILINE)
    assert found is not None
    address = parse_address(found[1])
    command = " ".join(store["command"])
    assert f"mkdir -p /data/{address.bucket} " in command
    assert f"--port :{address.endpoint.rpartition(':')[2]} --region {address.region} " in command
    assert address.endpoint.startswith("http://s3:")


def test_the_configuration_in_the_containers_loads(root: Path, compose: dict[str, Any]) -> None:
    """docker/drystone.yaml is a valid configuration whose bucket and input lie in folders that the services mount."""
    loaded = load(root / "docker/drystone.yaml")
    targets = {mount.split(":")[1] for mount in compose["services"]["scheduler"]["volumes"]}
    assert loaded.bucket_url("flights").removeprefix("file://") in targets
    assert str((loaded.path.parent / loaded.stream("flights").files.path).parent) in targets
    assert loaded.config.spark.shared_filesystem
