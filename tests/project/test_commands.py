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

from drystone.bucket import LocalBucket
from drystone.config.load import load
from drystone.testing.streams import ManualClock, build_block, source_id, with_source, write_record

ROOT = Path(__file__).parents[2]
HOUR = 3_600_000
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
    """A folder like a checkout after the demo: its configuration and input, and the flights of two days in a bucket."""
    folder = tmp_path_factory.mktemp("checkout")
    (folder / "demo").mkdir()
    loaded = load(Path(shutil.copy(ROOT / "demo/drystone.yaml", folder / "demo")))
    config = loaded.stream("flights")
    clock = ManualClock(time.time_ns() // 1_000_000 - HOUR)
    bucket = LocalBucket(folder / "build/demo/bucket", clock)
    assert bucket.url == loaded.bucket_url("flights")
    write_record(bucket, "flights", config)
    january = flights.month(flights.load(), 1)
    for day in (1, 2):
        of_day = january.filter(pc.equal(january["day"], day))
        for path in flights.split_by_origin(of_day, folder / "build/demo/data"):
            origin = path.stem.removeprefix("flights_")
            part = flights.with_event_time(of_day.filter(pc.equal(of_day["origin"], origin)))
            rows = with_source(part, source_id(clock(), f"{day} {origin}"))
            build_block(bucket, "flights", config, rows, clock)
    return folder


@pytest.fixture
def world(lived_in: Path, tmp_path: Path) -> Path:
    """A copy of that folder, with drystone.yaml at its top and the environment where `make` puts it."""
    shutil.copytree(lived_in, tmp_path, dirs_exist_ok=True)
    text = (tmp_path / "demo/drystone.yaml").read_text()
    (tmp_path / "drystone.yaml").write_text(text.replace("../build", "build"))
    (tmp_path / ".venv").symlink_to(Path(sys.executable).parent.parent)
    for name in ("dags", "plugins"):
        (tmp_path / name).symlink_to(ROOT / name)
    return tmp_path


WITH_MAKE = [page for page in PAGES if any(map(is_make, blocks(page.read_text())))]
LONG = {"first-hour.md"}
"""Pages that run whole DAGs."""
TO_RUN = [page for page in PAGES if not all(map(is_make, blocks(page.read_text())))]


@pytest.mark.parametrize("page", WITH_MAKE, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_commands_exist(page: Path) -> None:
    """Every `make` command on a page is one that the Makefile has."""
    asked = {goal for block in blocks(page.read_text()) if is_make(block) for goal in goals(block)}
    assert asked <= targets((ROOT / "Makefile").read_text())


@pytest.mark.spark
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.slow] if page.name in LONG else []) for page in TO_RUN],
    ids=[str(page.relative_to(ROOT)) for page in TO_RUN],
)
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
