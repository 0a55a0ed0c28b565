"""The page of guarantees names a test for each promise, and each test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_NAMED = re.compile(r"`(test_\w+)`")


def promised(page: str) -> dict[str, list[str]]:
    """Return the tests that each row of the page's last table names, by its promise."""
    rows = [line.split("|")[1:-1] for line in page.splitlines() if line.startswith("| ") and line.count("|") == 4]
    return {row[0].strip(): _NAMED.findall(row[2]) for row in rows if row[2].strip() not in {"held by", "run again"}}


def names_of_tests(folder: Path) -> set[str]:
    """Return the names of all test functions below a folder."""
    trees = (ast.parse(path.read_text()) for path in folder.rglob("test_*.py"))
    return {node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_each_promise_is_held_by_a_test_that_exists() -> None:
    """No promise stands alone, and no test is named that has been renamed or removed."""
    page = (ROOT / "docs" / "guarantees.md").read_text().partition("## What holds each promise")[2]
    found = promised(page)
    assert len(found) > 10
    assert not [promise for promise, tests in found.items() if not tests]
    missing = {test for tests in found.values() for test in tests} - names_of_tests(ROOT / "tests")
    assert not missing, missing
