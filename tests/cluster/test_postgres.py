"""PostgreSQL's data folder: made once, made again if that was cut off, and where its user can reach it."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from drystone.errors import UsageError
from drystone.testing.cluster import postgres
from drystone.testing.cluster.state import State

pytestmark = pytest.mark.slow


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that every user can reach."""
    found = Path(tempfile.mkdtemp(prefix="drystone-postgres-"))
    found.chmod(0o755)
    (found / "logs").mkdir()
    yield found
    shutil.rmtree(found)


def asked(folder: Path, state: State, query: str) -> str:
    """Start the server, ask it, end it; return its answer."""
    service = postgres.service(folder / "postgres", state)
    process = service.start(folder)
    try:
        while not service.healthy(process.at):
            assert process.alive, service.log(folder).read_text()
            time.sleep(0.1)
        address = f"postgresql://{postgres.url(state)}"
        done = subprocess.run(["psql", "-At", "-c", query, address], capture_output=True, text=True, check=True)
        return done.stdout.strip()
    finally:
        assert service.stop(folder, process)


def test_what_is_written_is_there_after_a_restart(folder: Path) -> None:
    """The database is made at the first start only; its user needs the password."""
    state = State(folder / "state.json")
    assert asked(folder, state, "CREATE TABLE kept AS SELECT 7 AS seven") == "SELECT 1"
    assert asked(folder, state, "SELECT seven FROM kept") == "7"
    state.secrets["postgres"] = "another"
    with pytest.raises(subprocess.CalledProcessError, match="psql"):
        asked(folder, state, "SELECT 1")


def test_a_folder_that_was_half_made_is_made_again(folder: Path) -> None:
    """A first start that was killed does not stand in the way of the next one."""
    (folder / "postgres" / "data").mkdir(parents=True)
    (folder / "postgres" / "data" / "PG_VERSION").write_text("15\n")
    assert asked(folder, State(folder / "state.json"), "SELECT 1") == "1"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs PostgreSQL as another user")
def test_a_folder_out_of_reach_is_said(folder: Path) -> None:
    """Where PostgreSQL's user cannot go, the error says which rights are missing."""
    folder.chmod(0o700)
    service = postgres.service(folder / "postgres", State(folder / "state.json"))
    with pytest.raises(UsageError, match=r"user postgres, who cannot reach .*chmod o\+x"):
        service.before()
