"""docker-compose.yaml as a parser understands it, and its health checks for the cluster that runs without Docker."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from drystone.testing import kafka
from drystone.testing.cluster.postgres import program
from drystone.testing.cluster.service import Service

ROOT = Path(__file__).resolve().parents[2]
_LOCAL = re.compile(r"http://localhost:\d+")
_BROKER_TOOL = "/opt/kafka/bin/kafka-broker-api-versions.sh"
"""It is not among the jars of a broker; every client begins by asking the same."""


def services() -> dict[str, dict[str, Any]]:
    """The services of the compose file, with all that is optional."""
    run = subprocess.run(
        [
            Path(sys.executable).with_name("podman-compose"),
            # The parser asks the container engine for its version first. Any program that answers will do.
            *("--podman-path", shutil.which("echo") or "/bin/echo", "--profile", "s3", "--profile", "kafka", "config"),
        ],
        cwd=ROOT,
        env=os.environ | {"DRYSTONE_SECRET": "s" * 64, "DRYSTONE_S3_SECRET": "s3-secret"},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, dict[str, Any]] = yaml.safe_load(run.stdout)["services"]
    return found


def is_healthy(service: Service, check: list[str]) -> bool:
    """Run the health check that the compose file has for a service on the one that runs here."""
    assert check[0] == "CMD"
    address = service.address.rpartition(" ")[2]
    words = [_LOCAL.sub(address, word) for word in check[1:]]
    host, _, port = address.rpartition("/")[2].partition(":")
    variables = dict(service.environment)
    if words[0] == _BROKER_TOOL:
        return kafka.answers(address)
    if words[0] == "pg_isready":
        words[0] = str(program(words[0]))
        variables |= {"PGHOST": host, "PGPORT": port}
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(words, env=variables, capture_output=True, check=False).returncode == 0
