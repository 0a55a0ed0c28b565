"""Streams to look at with the terminal."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import Lake, Row, make_busy_lake, make_lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A stream without a block."""
    return make_lake(tmp_path)


@pytest.fixture
def busy(tmp_path: Path) -> tuple[Lake, list[Row]]:
    """A stream in the middle of its life, and the rows that it must show."""
    return make_busy_lake(tmp_path)
