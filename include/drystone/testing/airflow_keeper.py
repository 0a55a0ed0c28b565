"""Keeps a set of programs alive together: started as one, stopped as one, none left behind.

    python -m drystone.testing.airflow_keeper '{"name": ["program", "argument", …], …}' LOGS

It runs in a session of its own, and so does all that its programs start. It ends when its standard input ends (whoever
started it is gone, however that came about), on SIGTERM or SIGINT, and with exit code 1 when one of the programs ends
by itself. Then everything in the session gets SIGTERM, and SIGKILL if it takes too long.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from drystone.testing.processes import dying_wish

GRACE = 6.0
"""Seconds between SIGTERM and SIGKILL."""
_POLL = 0.5
_SESSION_FIELD = 3


def main(programs: dict[str, list[str]], logs: Path) -> int:
    """Run the programs until there is a reason to stop; return the exit code."""
    if os.getsid(0) != os.getpid():
        os.setsid()
    stop: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stop.append(received))
    running = {name: _start(command, logs / f"{name}.log") for name, command in programs.items()}
    try:
        ended = _watch(running, stop)
    finally:
        _end_session()
    if ended:
        print(f"{ended} ended by itself; see {logs / ended}.log", file=sys.stderr, flush=True)  # noqa: T201 -- a program
    return 1 if ended else 0


def _start(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(  # noqa: S603 -- the caller's programs are the point
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            preexec_fn=dying_wish(),  # noqa: PLW1509 -- this program has one thread
        )


def _watch(running: dict[str, subprocess.Popen[bytes]], stop: list[int]) -> str:
    while not stop:
        ready, _, _ = select.select([0], [], [], _POLL)
        if ready and not os.read(0, 1024):
            return ""
        for name, program in running.items():
            if program.poll() is not None:
                return name
    return ""


def _end_session() -> None:
    deadline = time.monotonic() + GRACE
    _signal(signal.SIGTERM)
    while time.monotonic() < deadline and any(_members()):
        _reap()
        time.sleep(0.1)
    while any(_members()):
        _signal(signal.SIGKILL)
        _reap()
        time.sleep(0.05)


def _signal(number: signal.Signals) -> None:
    for pid in _members():
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _members() -> Iterator[int]:
    """Yield the other processes of this session that still run."""
    mine = os.getpid()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal() and int(folder.name) != mine:
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(fields[_SESSION_FIELD]) == mine and fields[0] != "Z":
                yield int(folder.name)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


if __name__ == "__main__":
    sys.exit(main(json.loads(sys.argv[1]), Path(sys.argv[2])))
