"""The pictures of the pages, small enough to be shown; kept in the folder that SCREENSHOTS names, if it does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from browsing import BLOCKS, FEW, MANY, ROOT, House, in_view, window
from lakes import STREAM
from playwright.sync_api import Browser, Page, expect

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
MOST_BYTES = 150_000


def keep(page: Page, name: str, folder: Path) -> None:
    """Take a picture; one that is too big to be shown fails."""
    wanted = os.environ.get("SCREENSHOTS")
    file = (ROOT / wanted if wanted else folder) / f"{name}.png"
    page.screenshot(path=file)
    assert 10_000 < file.stat().st_size <= MOST_BYTES, file


def test_pictures_of_the_block_page(browser: Browser, house: House, login: Any, tmp_path: Path) -> None:
    """Many blocks in the light, one block in the dark, and a telephone's width, each at most 150 kB."""
    with window(browser, house, login, viewport={"width": 1280, "height": 800}) as page:
        page.goto(f"{house.url}#{MANY}")
        in_view(page, BLOCKS)
        page.get_by_role("button", name="Zoom in").click()
        expect(page.locator("#plan")).to_contain_text("actions")
        keep(page, "block-page", tmp_path)
    with window(browser, house, login, viewport={"width": 1280, "height": 900}, color_scheme="dark") as page:
        page.goto(f"{house.url}#{STREAM}/{house.made}")
        in_view(page, FEW)
        expect(page.locator("#block-title")).to_be_visible()
        page.locator("#blocks-title").scroll_into_view_if_needed()
        page.evaluate("scrollTo(0, document.querySelector('#blocks-title').offsetTop - 12)")
        keep(page, "block-page-block", tmp_path)
    with window(browser, house, login, viewport={"width": 390, "height": 844}) as page:
        page.goto(f"{house.url}#{STREAM}")
        in_view(page, FEW)
        page.evaluate("scrollTo(0, document.querySelector('#blocks-title').offsetTop - 12)")
        keep(page, "block-page-narrow", tmp_path)
