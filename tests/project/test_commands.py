"""What the pages tell people to type works.

A fenced block with the info string `bash` is typed by people, and so by these tests. A block in which every line is a
`make` command is only checked to name real ones, because each of those is run elsewhere. Every other block is run: the
blocks of one page one after the other, in one folder that holds drystone.yaml and a stream `flights` with a few blocks.
What is not to be run (another machine's commands, an excerpt) is fenced as `console` or `text`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import flights
import pyarrow.compute as pc
import pytest

import drystone
from drystone import jobs

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.MULTILINE | re.DOTALL)
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> list[str]:
    """Return the blocks of a page that people type."""
    return BLOCK.findall(text)


def commands(block: str) -> list[str]:
    """Return the lines of a block without comments."""
    lines = [line.partition(" #")[0].strip() for line in block.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def is_make(block: str) -> bool:
    """Tell whether every line of the block is a make command."""
    return all(line.split()[0] == "make" for line in commands(block))


def goals(block: str) -> set[str]:
    """Return the goals that the block gives to make."""
    return {word for line in commands(block) for word in line.split()[1:] if "=" not in word}


def targets(makefile: str) -> set[str]:
    """Return the goals that a Makefile explains."""
    return set(re.findall(r"^([a-z-]+):.*## ", makefile, re.MULTILINE))


def typed(command: list[str | Path], folder: Path) -> None:
    """Run a command as a person would in a checkout whose environment is on the path; fail with what it said."""
    environment = {name: value for name, value in os.environ.items() if name != "DRYSTONE_CONFIG"}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.fixture(scope="session")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder like a checkout after the demo: its configuration, and a bucket with two days of flights to be read."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "demo").mkdir()
    shutil.copy(ROOT / "demo/drystone.yaml", folder / "demo")
    january = flights.month(flights.load(), 1)
    two_days = january.filter(pc.less_equal(january["day"], 2))
    flights.split_by_origin(two_days, folder / "build/demo/data")
    job = ["--config", "demo/drystone.yaml", "--stream", "flights", "--run", "before"]
    typed(["spark-submit", "--master", "local[2]", jobs.script("upload"), *job], folder)
    bucket, deadline = f"file://{folder}/build/demo/bucket", time.monotonic() + 60
    while sum(batch.num_rows for batch in drystone.scan(bucket, "flights")) < two_days.num_rows:
        assert time.monotonic() < deadline, "the blocks did not become readable"
        time.sleep(1)
    return folder


@pytest.fixture
def world(lived_in: Path, tmp_path: Path) -> Path:
    """A copy of that folder, with drystone.yaml at its top and the environment where `make` puts it."""
    shutil.copytree(lived_in, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "demo/drystone.yaml").read_text()
    (tmp_path / "drystone.yaml").write_text(text.replace("../build", "build"))
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    return tmp_path


WITH_MAKE = [page for page in PAGES if any(map(is_make, blocks(page.read_text())))]
TO_RUN = [page for page in PAGES if not all(map(is_make, blocks(page.read_text())))]


@pytest.mark.parametrize("page", WITH_MAKE, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_commands_exist(page: Path) -> None:
    """Every `make` command on a page is one that the Makefile has."""
    asked = {goal for block in blocks(page.read_text()) if is_make(block) for goal in goals(block)}
    assert asked <= targets((ROOT / "Makefile").read_text())


@pytest.mark.spark
@pytest.mark.parametrize("page", TO_RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_run(page: Path, world: Path) -> None:
    """Every other command on a page ends well, typed one after the other in a folder with a stream."""
    script = "\n".join(block for block in blocks(page.read_text()) if not is_make(block))
    typed(["bash", "-euo", "pipefail", "-x", "-c", script], world)


def test_blocks_are_told_apart() -> None:
    """A block of make commands is known as one, with its goals; a block with anything else is to be run."""
    page = "```bash\nmake demo  # six minutes\nmake ui\n```\n\n```bash\nmake x\nls\n```\n\n```console\n$ rm\n```\n"
    first, second = blocks(page)
    assert is_make(first)
    assert goals(first) == {"demo", "ui"}
    assert not is_make(second)
