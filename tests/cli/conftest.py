"""Streams to look at with the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import Lake, Row, make_busy_lake, make_lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A stream without a block."""
    return make_lake(tmp_path)


@pytest.fixture(scope="session")
def busy_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Lake, list[Row]]:
    """The original of `busy`."""
    return make_busy_lake(tmp_path_factory.mktemp("busy"))


@pytest.fixture
def busy(busy_once: tuple[Lake, list[Row]], tmp_path: Path) -> tuple[Lake, list[Row]]:
    """A stream in the middle of its life, and the rows that it must show."""
    original, truth = busy_once
    return original.copy(tmp_path), truth
