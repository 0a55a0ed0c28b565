"""The keeper of Airflow's programs: whatever happens, none of them is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from drystone.testing import airflow_keeper

STUBBORN = "trap '' TERM; echo here; while true; do sleep 0.1; done"
PARENT = "sh -c 'echo $$ >> {file}; exec sleep 600' & echo $$ >> {file}; echo here; wait"


@pytest.fixture
def pids(tmp_path: Path) -> Callable[[], list[int]]:
    """A function that returns the ids that the programs have written, two of them."""
    file = tmp_path / "pids"
    file.touch()

    def read() -> list[int]:
        wait_for(lambda: len(file.read_text().split()) >= 2)
        return [int(word) for word in file.read_text().split()]

    return read


def wait_for(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for a condition."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def keep(folder: Path, **programs: str) -> subprocess.Popen[bytes]:
    """Start a keeper of shell programs; `{file}` in them is the file of ids."""
    commands = {name: ["sh", "-c", text.format(file=folder / "pids")] for name, text in programs.items()}
    command = [sys.executable, "-m", "drystone.testing.airflow_keeper", json.dumps(commands), str(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def alive(pid: int) -> bool:
    """Tell whether a process runs."""
    try:
        return (Path(f"/proc/{pid}/stat")).read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_closing_its_input_ends_everything(tmp_path: Path, pids: Callable[[], list[int]]) -> None:
    """When whoever started it is gone, its standard input ends: programs and their children go, and that is success."""
    keeper = keep(tmp_path, parent=PARENT)
    found = pids()
    keeper.communicate()
    assert keeper.returncode == 0
    assert not any(alive(pid) for pid in found)


def test_sigterm_ends_everything(tmp_path: Path, pids: Callable[[], list[int]]) -> None:
    """SIGTERM is the other way to ask."""
    keeper = keep(tmp_path, parent=PARENT)
    found = pids()
    keeper.send_signal(signal.SIGTERM)
    assert keeper.wait(10) == 0
    assert not any(alive(pid) for pid in found)


def test_a_program_that_does_not_listen_is_killed(tmp_path: Path) -> None:
    """What ignores SIGTERM gets SIGKILL after the grace period."""
    keeper = keep(tmp_path, stubborn=STUBBORN)
    wait_for(
        lambda: "here" in (tmp_path / "stubborn.log").read_text() if (tmp_path / "stubborn.log").exists() else False
    )
    begun = time.monotonic()
    keeper.communicate()
    assert airflow_keeper.GRACE <= time.monotonic() - begun < airflow_keeper.GRACE + 5


def test_if_one_ends_all_end(tmp_path: Path, pids: Callable[[], list[int]]) -> None:
    """A program that ends by itself takes the others with it; the keeper fails, and names it and its log."""
    keeper = keep(tmp_path, parent=PARENT, crash="while [ ! -e {file}.go ]; do sleep 0.05; done; exit 7")
    found = pids()
    (tmp_path / "pids.go").touch()
    _, errors = keeper.communicate(timeout=20) if keeper.wait(20) else (b"", b"")
    assert keeper.returncode == 1
    assert f"crash ended by itself; see {tmp_path / 'crash'}.log" in errors.decode()
    assert not any(alive(pid) for pid in found)


def test_killing_the_keeper_kills_its_programs(tmp_path: Path, pids: Callable[[], list[int]]) -> None:
    """Even SIGKILL to the keeper leaves none of the programs that it started itself."""
    keeper = keep(tmp_path, parent=PARENT)
    own = next(pid for pid in pids() if parent_of(pid) == keeper.pid)
    session = os.getsid(own)
    keeper.kill()
    keeper.communicate()
    wait_for(lambda: not alive(own))
    os.killpg(session, signal.SIGKILL)


def parent_of(pid: int) -> int:
    """Return the id of a process's parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
