"""What Drystone adds to Airflow's own server: the block page, and that behind the link *Report* of a run's last task.

Airflow's programs load plugins before they fork, so what DAG files import is imported here: their children, which run
tasks and parse DAG files, then have it already.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any
from urllib.parse import urlsplit

from airflow.configuration import conf
from airflow.plugins_manager import AirflowPlugin

from drystone.airflow import ingest, lifecycle, major  # noqa: F401 -- see above
from drystone.airflow.report_link import PREFIX

HREF = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/") + PREFIX + "/"
"""The block page, behind whatever path Airflow itself has."""


class Pages:
    """An ASGI app that is made by its first request: every Airflow program loads plugins, and only one serves pages."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    @cached_property
    def _app(self) -> Any:
        from drystone.airflow.pages import pages  # noqa: PLC0415 -- see above

        return pages()


class DrystonePlugin(AirflowPlugin):
    """Loaded by plugins/drystone_plugin.py. Whoever may see plugins in Airflow may see the pages; nobody else."""

    name = "drystone"
    fastapi_apps = [{"app": Pages(), "url_prefix": PREFIX, "name": "Drystone"}]  # noqa: RUF012 -- Airflow's interface
    # Without a url_route: Airflow would show it in a frame that may not open Airflow's own pages. In a menu: outside of
    # them Airflow 3.3 draws such a view as a button that leads nowhere.
    external_views = [  # noqa: RUF012 -- as above
        {"name": "Drystone", "href": HREF, "destination": "nav", "category": "browse"}
    ]
