"""What the pages tell people to type works.

A fenced block with the info string `bash` is typed by people, and so by these tests. A block in which every line is a
`make` command is only checked to name real ones, because each of those is run elsewhere. Every other block is run: the
blocks of one page one after the other, in one folder that holds drystone.yaml and a stream `flights` with a few blocks.
What is not to be run (another machine's commands, an excerpt) is fenced as `console` or `text`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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


WITH_MAKE = [page for page in PAGES if any(map(is_make, blocks(page.read_text())))]
TO_RUN = [page for page in PAGES if not all(map(is_make, blocks(page.read_text())))]


@pytest.mark.parametrize("page", WITH_MAKE, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_commands_exist(page: Path) -> None:
    """Every `make` command on a page is one that the Makefile has."""
    asked = {goal for block in blocks(page.read_text()) if is_make(block) for goal in goals(block)}
    assert asked <= targets((ROOT / "Makefile").read_text())


@pytest.mark.parametrize("page", TO_RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_run(page: Path, world: Path) -> None:
    """Every other command on a page ends well, typed one after the other in a folder with a stream."""
    script = "\n".join(block for block in blocks(page.read_text()) if not is_make(block))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euo", "pipefail", "-x", "-c", script],
        cwd=world,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def test_blocks_are_told_apart() -> None:
    """A block of make commands is known as one, with its goals; a block with anything else is to be run."""
    page = "```bash\nmake demo  # six minutes\nmake ui\n```\n\n```bash\nmake x\nls\n```\n\n```console\n$ rm\n```\n"
    first, second = blocks(page)
    assert is_make(first)
    assert goals(first) == {"demo", "ui"}
    assert not is_make(second)
