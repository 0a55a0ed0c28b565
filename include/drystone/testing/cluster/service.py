"""One program of a cluster, and one step that has to be done before some of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any

from drystone.testing.cluster.processes import MARK, Known, end, known

GRACE = 20.0
"""Seconds between the signal that asks a program to end and the one that does not ask."""


def _nothing() -> None:
    """What most services need before they start."""


@dataclass(frozen=True, kw_only=True)
class Service:
    """A program that runs until it is stopped. The name and `needs` are those of docker-compose.yaml.

    `address`: for people. `healthy`: whether it does its work, given when it was started (seconds since the epoch).
    `needs`: the services that must be healthy, and the steps that must be done, before it starts. `before`: makes
    its folders; again and again without harm. `user`: who it runs as, instead of us.
    """

    name: str
    address: str
    command: Sequence[str]
    environment: Mapping[str, str]
    healthy: Callable[[float], bool]
    needs: Sequence[str] = ()
    before: Callable[[], None] = _nothing
    user: str | None = None
    stop_signal: signal.Signals = signal.SIGTERM

    def start(self, folder: Path) -> Known:
        """Start it in a session of its own, its output appended to its log in `folder`; it outlives who calls this."""
        self.before()
        with self.log(folder).open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 -- the cluster's own programs
                self.command,
                env={**self.environment, MARK: self.mark(folder)},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                user=self.user,
                group=self.user,
                extra_groups=None if self.user is None else [],
            )
        found = known(process.pid)
        # It is not ours to wait for.
        process.returncode = 0
        return found

    def stop(self, folder: Path, process: Known | None, grace: float = GRACE) -> bool:
        """End it, and whatever it started, also if it is gone itself; return whether there was anything to end."""
        return end(process, self.mark(folder), self.stop_signal, grace)

    def log(self, folder: Path) -> Path:
        """The file that it writes to."""
        return folder / "logs" / f"{self.name}.log"

    def mark(self, folder: Path) -> str:
        """What its processes have in their environment."""
        return f"{folder}:{self.name}"


@dataclass(frozen=True, kw_only=True)
class Step:
    """Something that is done, again and again without harm, before the services that need it are started."""

    name: str
    act: Callable[[], None]
    needs: Sequence[str] = field(default=())


def ask(url: str) -> Any:
    """Return what a server of this machine says, parsed if it is JSON; None while it does not answer well."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(url, timeout=10) as answer:
            text = answer.read()
    except (OSError, HTTPException):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text


def environment(**more: str) -> dict[str, str]:
    """Return this process's environment without what concerns other Airflows, Sparks, stores and databases."""
    foreign = ("AIRFLOW_", "AWS_", "SPARK_", "PYSPARK_", "PG", "DRYSTONE_")
    return {name: value for name, value in os.environ.items() if not name.startswith(foreign)} | more
