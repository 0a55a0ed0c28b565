"""A stream in the middle of its life, and its page."""

from __future__ import annotations

from pathlib import Path

import pytest
from block_page import Page
from lakes import Lake, make_busy_lake


@pytest.fixture(scope="session")
def busy_once(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The original of `page`'s stream."""
    return make_busy_lake(tmp_path_factory.mktemp("busy"))[0]


@pytest.fixture
def page(busy_once: Lake, tmp_path: Path) -> Page:
    """The page over a copy of the stream."""
    return Page(busy_once.copy(tmp_path))
