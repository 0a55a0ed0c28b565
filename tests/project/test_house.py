"""The house rules that no linter knows: sizes, thin edges, and where a rule may stand."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 40
MAX_DAG_FILE_LINES = 80

EDGES = {
    "dags": {"airflow", "drystone.airflow"},
    "plugins": {"airflow", "drystone.airflow"},
    "spark_jobs": {"drystone.spark"},
}
"""What the files of an edge may import, beside the standard library."""


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield every function and method."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_functions(source: str) -> list[str]:
    """Name the functions that are longer than the house allows, docstrings aside."""
    found = []
    for function in functions(ast.parse(source)):
        start = function.body[0].end_lineno if ast.get_docstring(function) else function.lineno
        lines = (function.end_lineno or 0) - (start or 0) + 1
        if lines > MAX_FUNCTION_LINES:
            found.append(f"{function.name}: {lines} lines")
    return found


def imports(source: str) -> set[str]:
    """Return the dotted names of all imported modules."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(node.module or "")
    return found


def foreign(source: str, allowed: set[str]) -> set[str]:
    """Return the imports that are neither of the standard library nor under one of the `allowed` names."""
    return {
        name
        for name in imports(source)
        if name.partition(".")[0] not in sys.stdlib_module_names
        and not any(name == known or name.startswith(f"{known}.") for known in allowed)
    }


def python_files(folder: Path) -> list[Path]:
    """Return all Python files under a folder."""
    return sorted(folder.rglob("*.py"))


def test_no_library_file_is_longer_than_400_lines(root: Path) -> None:
    """A file of the library has at most 400 lines: more wants to be two files."""
    counts = {path: len(path.read_text().splitlines()) for path in python_files(root / "include/drystone")}
    assert {str(path): lines for path, lines in counts.items() if lines > MAX_FILE_LINES} == {}


def test_no_library_function_is_longer_than_40_lines(root: Path) -> None:
    """A function of the library has at most 40 lines below its docstring: more wants to be two functions."""
    found = {str(path): long_functions(path.read_text()) for path in python_files(root / "include/drystone")}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_long_function_is_found() -> None:
    """The rule for functions names one of 41 lines, counts no docstring, and lets one of 40 pass."""
    body = "    pass\n"
    assert long_functions(f"def long():\n{body * 40}") == ["long: 41 lines"]
    assert long_functions(f"def fits():\n{body * 39}") == []
    assert long_functions('def described():\n    """' + "\n" * 100 + '    """\n    pass\n') == []


@pytest.mark.parametrize("edge", EDGES)
def test_edges_import_only_the_room_behind_them(root: Path, edge: str) -> None:
    """A file of dags/, plugins/ or spark_jobs/ imports nothing of the library but the one room that serves it."""
    found = {str(path): foreign(path.read_text(), EDGES[edge]) for path in python_files(root / edge)}
    assert {path: names for path, names in found.items() if names} == {}


def test_a_foreign_import_is_found() -> None:
    """The rule for edges sees an import of another room, even inside a function."""
    assert foreign("import os\nfrom drystone.spark.jobs import main", EDGES["spark_jobs"]) == set()
    assert foreign("def f():\n    from drystone.engine import merge", EDGES["spark_jobs"]) == {"drystone.engine"}


def test_dag_files_are_thin(root: Path) -> None:
    """A file in dags/ holds wiring only: it is short, and defines no class."""
    for path in python_files(root / "dags"):
        source = path.read_text()
        assert len(source.splitlines()) <= MAX_DAG_FILE_LINES, path
        assert not any(isinstance(node, ast.ClassDef) for node in ast.walk(ast.parse(source))), path


def test_airflow_loads_one_plugin_file(root: Path) -> None:
    """plugins/ holds drystone_plugin.py and no other Python file: Airflow executes each one that it finds there."""
    assert {path.name for path in python_files(root / "plugins")} <= {"drystone_plugin.py"}


def test_no_package_under_tests(root: Path) -> None:
    """No __init__.py stands under tests/: a package `airflow` there would shadow the real one."""
    assert [str(path) for path in (root / "tests").rglob("__init__.py")] == []


def test_nobody_imports_include(files: list[Path]) -> None:
    """The library is imported as `drystone`, never by the name of the folder that it lies in."""
    sources = [path for path in files if path.suffix == ".py"]
    assert sources
    for path in sources:
        assert not any(name.partition(".")[0] == "include" for name in imports(path.read_text())), path


def test_every_test_says_what_it_shows(root: Path) -> None:
    """Every test has a docstring that begins with one whole sentence."""
    for path in python_files(root / "tests"):
        for function in functions(ast.parse(path.read_text())):
            if function.name.startswith("test_"):
                docstring = ast.get_docstring(function) or ""
                assert docstring.split("\n\n")[0].rstrip().endswith("."), f"{path}: {function.name}"
