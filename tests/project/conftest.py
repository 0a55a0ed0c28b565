"""What the tests of the checkout itself share: its folder, and the files that belong to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_MADE = {
    ".airflow",
    ".cluster",
    ".git",
    ".hypothesis",
    ".import_linter_cache",
    ".mypy_cache",
    ".pytest_cache",
    ".ruff_cache",
}
_MADE |= {".venv", "__pycache__", "build", "spark-warehouse", "metastore_db"}


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout's folder."""
    return ROOT


@pytest.fixture(scope="session")
def files() -> list[Path]:
    """Every file that belongs to the project: what git knows, or in a copy without git what nothing here makes."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
        return [path for name in listed.split("\0") if (path := ROOT / name).is_file()]
    found: list[Path] = []
    folders = [ROOT]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.is_dir():
                folders += [path] if path.name not in _MADE and not path.name.endswith(".egg-info") else []
            else:
                found.append(path)
    return found


@pytest.fixture(scope="session")
def pages() -> list[Path]:
    """Every Markdown page that is written for people."""
    return [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
