"""SIGKILL to a job that runs somewhere below this process: its spark-submit, driver and workers, all at once."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path


def processes() -> dict[int, tuple[int, str]]:
    """Return the parent and the command line of every process, by its id."""
    found: dict[int, tuple[int, str]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue  # It has ended since.
            found[int(folder.name)] = (parent, command)
    return found


def descendants(running: dict[int, tuple[int, str]], of: set[int]) -> set[int]:
    """Return all that these processes started, directly or not."""
    found: set[int] = set()
    while children := {pid for pid, (parent, _) in running.items() if parent in found | of} - found - of:
        found |= children
    return found


def kill(doomed: set[int]) -> list[int]:
    """Send SIGKILL to these processes; return their ids."""
    for pid in doomed:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    return sorted(doomed)


def kill_tree(*words: str) -> list[int]:
    """Kill what this process started and whose command line has all these words, and what that started."""
    running = processes()
    ours = descendants(running, {os.getpid()})
    doomed = {pid for pid in ours if all(word in running[pid][1] for word in words)}
    return kill(doomed | descendants(running, doomed))


def kill_python_workers() -> list[int]:
    """Kill the workers that run Python tasks for the Spark of this process, and not the daemon that forks them."""
    running = processes()
    ours = {pid for pid in descendants(running, {os.getpid()}) if "pyspark.daemon" in running[pid][1]}
    return kill({pid for pid in ours if running[pid][0] in ours})


@contextmanager
def killed(verb: str, config: Path, ready: Callable[[], bool], within: float = 480) -> Iterator[list[int]]:
    """Kill the job `verb` of this configuration once `ready` says so; yield the list that will name who was killed."""
    victims: list[int] = []
    stop = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + within
        while not stop.is_set() and time.monotonic() < deadline:
            if ready():
                victims.extend(kill_tree(f"drystone_{verb}.py", str(config)))
                return
            time.sleep(0.002)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield victims
    finally:
        stop.set()
        watcher.join()
    assert victims, f"no {verb} job was killed: {ready()}"
