"""Processes that were written down: whether one still runs, what belongs to it, and its end.

A process id is used again for another program sooner or later. So a process is known by its id, by when it began and
by the boot of the machine; what it has started is known by a mark in its environment.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from drystone.errors import DrystoneError

MARK = "DRYSTONE_CLUSTER"
"""The environment variable that says which service of which cluster a process belongs to."""
_PROC = Path("/proc")
_STATE, _BEGAN = 0, 19
"""Fields of /proc/…/stat behind the program's name."""
_POLL = 0.05
_KILL_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Known:
    """A process as it was when it was started. `began`: in clock ticks since `boot`; `at`: seconds since the epoch."""

    pid: int
    began: int
    boot: str
    at: float

    @property
    def alive(self) -> bool:
        """Whether it runs: the same program, and not another one that has got its id."""
        fields = _stat(self.pid)
        return bool(fields) and fields[_STATE] != "Z" and int(fields[_BEGAN]) == self.began and _boot() == self.boot


def known(pid: int) -> Known:
    """Return what tells a process that was just started here from any later one of its id."""
    return Known(pid, int(_stat(pid)[_BEGAN]), _boot(), time.time())


def marked(mark: str) -> Iterator[int]:
    """Yield the processes, other than this one, that were started with this mark in their environment."""
    wanted = f"{MARK}={mark}".encode()
    for folder in _PROC.iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            found = wanted in (folder / "environ").read_bytes().split(b"\0")
        except OSError:  # It has ended, or is somebody else's.
            continue
        if found and _stat(int(folder.name))[:1] not in ([], ["Z"]):
            yield int(folder.name)


def end(process: Known | None, mark: str, number: signal.Signals, grace: float) -> bool:
    """End a process and all that bears its mark; return whether there was anything.

    The process gets the signal `number`, everything else SIGTERM, and what is left after `grace` seconds SIGKILL.
    Raises DrystoneError if something outlives even that.
    """
    leader = process.pid if process is not None and process.alive else 0
    others = set(marked(mark)) - {leader}
    if leader:
        _signal(leader, number)
    for pid in others:
        _signal(pid, signal.SIGTERM)
    deadline = time.monotonic() + grace
    while left := _left(process, mark):
        over = time.monotonic() - deadline
        if over > _KILL_SECONDS:
            raise DrystoneError(f"Processes {sorted(left)} of {mark} cannot be ended.", "See what they wait for.")
        if over > 0:
            for pid in left:
                _signal(pid, signal.SIGKILL)
        time.sleep(_POLL)
    return bool(leader or others)


def _left(process: Known | None, mark: str) -> set[int]:
    alive = {process.pid} if process is not None and process.alive else set()
    return alive | set(marked(mark))


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _stat(pid: int) -> list[str]:
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


@cache
def _boot() -> str:
    return (_PROC / "sys" / "kernel" / "random" / "boot_id").read_text().strip()
