"""A real Airflow with two streams to look at, and windows of a real browser onto it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakes import Lake, make_busy_lake, rows
from many_blocks import make_many
from playwright.sync_api import Browser, BrowserContext, Page, expect

from drystone.testing.airflow_home import AirflowHome
from drystone.testing.airflow_rest import AirflowClient

expect.set_options(timeout=60_000)
ROOT = Path(__file__).resolve().parents[2]
MANY, BLOCKS, FEW = "many", 10_000, 20
VIEWER = "viewer"
MORE = """
  many:
    <<: *events
  broken:
    <<: *events
    bucket: file:drystone.yaml/no-folder
"""


@dataclass(frozen=True)
class House:
    """The Airflow, the streams of its lake, and what made the block `made` of stream events."""

    home: AirflowHome
    client: AirflowClient
    lake: Lake
    made: str
    run_id: str

    @property
    def url(self) -> str:
        """Where the block page is."""
        return f"{self.home.url}/drystone/"

    def password(self, user: str) -> str:
        """Return a user's password."""
        return str(json.loads((self.home.folder / "passwords.json").read_text())[user])


def make_streams(folder: Path) -> Lake:
    """Return the lake with both streams."""
    lake = make_busy_lake(folder)[0]
    for number in range(FEW - 10):
        lake.ingest(f"more{number}", rows(number + 6, day=2 + number))
    make_many(lake, MANY, BLOCKS)
    text = lake.config_file.read_text().replace("  events:", "  events: &events")
    lake.config_file.write_text(text + MORE)
    return lake


@contextmanager
def logged_in(browser: Browser, house: House, user: str, **options: Any) -> Iterator[BrowserContext]:
    """Log a user in by Airflow's own form."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto(house.home.url)
    page.locator("input[name=username]").fill(user)
    page.locator("input[name=password]").fill(house.password(user))
    page.locator("button[type=submit]").click()
    page.wait_for_url(lambda url: "login" not in url)
    page.close()
    yield context
    context.close()


@contextmanager
def window(browser: Browser, house: House, login: object, **options: Any) -> Iterator[Page]:
    """Open a window; whatever it complains about, and whoever else it asks, fails the test."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, "storage_state": login, **options})
    context.set_default_timeout(60_000)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda line: said.append(line.text) if line.type == "error" else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    on_page = [url for url in asked if not url.startswith((house.home.url, "blob:", "data:"))]
    context.close()
    assert on_page == []
    assert [line for line in said if "404" not in line and "503" not in line] == []


def in_view(page: Page, blocks: int) -> None:
    """Wait until so many blocks are in view."""
    expect(page.locator("#table caption")).to_have_text(re.compile(rf"of {blocks:,}$"))
