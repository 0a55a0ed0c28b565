"""What a cluster remembers between two commands: its ports, its secrets, and who runs. One private file."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import secrets
import socket
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from drystone.errors import DrystoneError, UsageError
from drystone.testing.cluster.processes import Known

_PORTS = range(20_000, 32_000)
"""Below those that Linux gives to clients: a service that is started again must find its port free."""
_DRAWS = 200


@dataclass
class State:
    """`running`: the processes that were started, by service; one may have ended since."""

    file: Path
    ports: dict[str, int] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    running: dict[str, Known] = field(default_factory=dict)

    def port(self, name: str) -> int:
        """Return the port of this name, drawn at the first call and the same ever after."""
        if name not in self.ports:
            self.ports[name] = _draw(set(self.ports.values()))
        return self.ports[name]

    def secret(self, name: str) -> str:
        """Return the secret of this name, drawn at the first call and the same ever after."""
        return self.secrets.setdefault(name, secrets.token_hex(20))

    def redraw(self) -> None:
        """Forget the ports that somebody else has taken. Only while nothing runs: services know each other's."""
        self.ports = {name: port for name, port in self.ports.items() if _free(port)}

    def save(self) -> None:
        """Write it down, as a whole or not at all."""
        content = {"ports": self.ports, "secrets": self.secrets}
        text = json.dumps(
            content | {"running": {name: asdict(known) for name, known in self.running.items()}}, indent=1
        )
        written = self.file.with_suffix(".new")
        with os.fdopen(os.open(written, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as stream:
            stream.write(text)
        written.replace(self.file)


def read(file: Path) -> State:
    """Return what was written to this file; nothing yet, if it is not there. Raises DrystoneError if it is damaged."""
    try:
        raw = json.loads(file.read_text())
        running = {name: Known(**known) for name, known in raw["running"].items()}
        return State(file, raw["ports"], raw["secrets"], running)
    except FileNotFoundError:
        return State(file)
    except (ValueError, KeyError, TypeError) as error:
        step = f"End its programs by hand (their environment names {file.parent}), and remove that folder."
        raise DrystoneError(f"{file} cannot be read: {error!r}.", step) from None


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[State]:
    """Yield the state of the cluster in a folder, for one command at a time. Raises UsageError if another one works."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another command works on the cluster in {folder}.", "Wait for its end.") from None
        yield read(folder / "state.json")


def _draw(taken: set[int]) -> int:
    for _ in range(_DRAWS):
        port = random.choice(_PORTS)  # noqa: S311 -- any will do
        if port not in taken and _free(port):
            return port
    raise DrystoneError("There is no free port on 127.0.0.1.", "See what listens there.")


def _free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
