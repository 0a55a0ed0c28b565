"""The import rules of pyproject.toml hold, and each of them fails when it is broken."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

LAYERS = "Imports point one way through the house"
APART = "Airflow and Spark meet only through drystone.jobs"
PURE = "What decides does no input or output, and has no clock and no dice"
OWNERS = "Each big package has one importer"
SMALL = "The library itself needs neither pandas nor DuckDB"


def lint(folder: Path) -> str:
    """Return what the import linter says of the checkout in `folder`; its last line counts the contracts."""
    code = "import sys; sys.path.insert(0, 'include'); from importlinter.cli import lint_imports_command; "
    code += "lint_imports_command(['--no-cache'])"
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A copy of the library and its rules, to be damaged."""
    shutil.copy(root / "pyproject.toml", tmp_path)
    shutil.copytree(root / "include", tmp_path / "include", ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_all_import_rules_hold(root: Path) -> None:
    """No import of the library points against the house."""
    said = lint(root)
    assert "5 kept, 0 broken" in said, said


@pytest.mark.parametrize(
    ("place", "line", "broken"),
    [
        ("block", "import drystone.timeline", LAYERS),
        ("errors.py", "import drystone.clock", LAYERS),
        ("timeline", "import drystone.plan", LAYERS),
        ("bucket", "import drystone.engine", LAYERS),
        ("tracker", "import drystone.reader", LAYERS),
        ("engine", "import drystone.airflow", LAYERS),
        ("reader", "import drystone.spark", LAYERS),
        ("block", "import drystone.jobs", LAYERS),
        ("engine", "import drystone.testing", LAYERS),
        ("rows", "import drystone.engine", LAYERS),
        ("airflow", "import drystone.spark", APART),
        ("spark", "import drystone.airflow", APART),
        ("plan", "import drystone.bucket", PURE),
        ("timeline", "import time", PURE),
        ("block", "import random", PURE),
        ("plan", "def f():\n    import pathlib", PURE),
        ("engine", "import pyspark", OWNERS),
        ("verbs", "from confluent_kafka.admin import AdminClient", OWNERS),
        ("reader", "from pyspark.sql import DataFrame", OWNERS),
        ("spark", "import airflow", OWNERS),
        ("engine", "import boto3", OWNERS),
        ("tracker", "import sqlalchemy", OWNERS),
        ("airflow", "import fastapi", OWNERS),
        ("reader", "import pandas", SMALL),
        ("reader", "import duckdb", SMALL),
    ],
)
def test_each_broken_import_rule_is_named(copy: Path, place: str, line: str, broken: str) -> None:
    """An import that the design forbids breaks the contract that says so."""
    path = copy / "include/drystone" / place
    path = path / "planted.py" if path.is_dir() else path
    with path.open("a") as file:
        file.write(f"\n{line}\n")
    said = lint(copy)
    assert f"{broken} BROKEN" in said, said


def test_a_room_without_a_place_in_the_house_is_named(copy: Path) -> None:
    """A new package of the library has to be given its place among the layers."""
    (copy / "include/drystone/cellar.py").touch()
    said = lint(copy)
    assert f"{LAYERS} BROKEN" in said, said
    assert "cellar" in said
