"""The whole `thanos` program, working on the stream of a local bucket as its own users would have it."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

from go_programs import build

from drystone.testing.processes import dying_wish, free_port

SOURCES = Path(__file__).parents[1] / "interop" / "thanos_program"
_PACKAGE = "github.com/thanos-io/thanos/cmd/thanos"
_PATIENCE = 60
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@cache
def program() -> Path:
    """Return the program; its first build takes many minutes."""
    return build(SOURCES, "thanos", _PACKAGE)


@dataclass(frozen=True)
class Thanos:
    """Thanos on one stream. `folder`: of the bucket; `work`: where it may write."""

    folder: Path
    stream: str
    work: Path

    @property
    def _config(self) -> str:
        document = {"type": "FILESYSTEM", "config": {"directory": str(self.folder)}, "prefix": self.stream}
        return json.dumps(document)

    def bucket(self, verb: str, *arguments: str) -> tuple[str, str]:
        """Run `thanos tools bucket VERB`; return what it says on stdout and stderr. It must end well."""
        # Thanos' flags may be given before or after the verb, but those of the bucket belong to it.
        command = [program(), "tools", "bucket", verb, f"--objstore.config={self._config}", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=self.work, timeout=_PATIENCE)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout, done.stderr

    @contextmanager
    def serving(self, *words: str) -> Iterator[str]:
        """Run a server until the end of the block; yield its address once it is ready."""
        address = f"127.0.0.1:{free_port()}"
        flags = [f"--objstore.config={self._config}", f"--http-address={address}", "--http-grace-period=0s"]
        with (self.work / "thanos.log").open("wb") as log:
            process = subprocess.Popen(
                [program(), *words, *flags],
                stdout=log,
                stderr=log,
                cwd=self.work,
                preexec_fn=dying_wish(),  # noqa: PLW1509 - it only calls prctl
            )
        try:
            waited(lambda: process.poll() is not None or _answers(f"http://{address}/-/ready"))
            assert process.poll() is None, (self.work / "thanos.log").read_text()
            yield f"http://{address}"
        finally:
            process.kill()  # A compactor that has halted listens to nothing else.
            process.wait(_PATIENCE)


def get(url: str) -> Any:
    """Return the JSON document at an address."""
    with _DIRECT.open(url, timeout=10) as answer:
        return json.load(answer)


def requests(url: str) -> dict[str, int]:
    """Return how many requests of each kind a server has made to its bucket."""
    found: dict[str, int] = {}
    with _DIRECT.open(f"{url}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            name, _, value = line.rpartition(" ")
            if name.startswith("thanos_objstore_bucket_operations_total"):
                found[name.partition('operation="')[2].partition('"')[0]] = int(float(value))
    return found


def metric(url: str, name: str) -> float:
    """Return the value of a metric without labels; 0 while there is none."""
    with _DIRECT.open(f"{url}/metrics", timeout=10) as answer:
        for line in answer.read().decode().splitlines():
            if line.startswith(f"{name} "):
                return float(line.split()[1])
    return 0.0


def waited(condition: Any) -> None:
    """Wait until a condition holds; fail if that does not come."""
    deadline = time.monotonic() + _PATIENCE
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def _answers(url: str) -> bool:
    try:
        with _DIRECT.open(url, timeout=1) as answer:
            return bool(answer.status == HTTPStatus.OK)
    except OSError:
        return False
