"""One Airflow and one Chromium for all tests of a module.

Not of a session: Playwright keeps an event loop in this thread, in which no other test could run one of its own.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from browsing import ROOT, VIEWER, House, logged_in, make_streams, window
from lakes import STREAM
from playwright.sync_api import Browser, Page, sync_playwright

from drystone.airflow.runs import job_name
from drystone.engine import audit
from drystone.engine.audit import Entry
from drystone.testing.airflow_home import USER, AirflowHome


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """The Airflow: its api-server alone, with a run of the lifecycle that is queued for ever and made a block."""
    folder = tmp_path_factory.mktemp("browser")
    users = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin,{VIEWER}:viewer"}
    home = AirflowHome(folder / "airflow", ROOT / "dags", ROOT / "plugins", folder / "drystone.yaml", environment=users)
    with ThreadPoolExecutor(1) as pool:
        made = pool.submit(make_streams, folder)
        home.prepare()
        lake = made.result()
    home.airflow("dags", "reserialize")
    with home.serving() as client:
        run_id = client.trigger(f"{STREAM}__lifecycle", {})
        name = job_name(f"{STREAM}__lifecycle", run_id, "compact_minor", 0)
        ulid, now = lake.ulid("f"), lake.clock.now
        audit.append(lake.bucket, STREAM, [Entry("upload", ulid, "merge", name, now)], now)
        yield House(home, client, lake, ulid, run_id)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The machine's own Chromium."""
    program = shutil.which("chromium")
    if program is None:
        pytest.fail("These tests need Chromium: apt-get install chromium.", pytrace=False)
    with sync_playwright() as playwright:
        # Its sandbox cannot be had by root, nor in most containers; it only visits this machine.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def login(browser: Browser, house: House) -> Any:
    """What a context needs to be the admin's."""
    with logged_in(browser, house, USER) as context:
        return context.storage_state()


@pytest.fixture
def page(browser: Browser, house: House, login: Any) -> Iterator[Page]:
    """A window of 1280 by 900 pixels of a logged-in admin. It saw no error and asked nobody but Airflow."""
    with window(browser, house, login) as found:
        yield found
