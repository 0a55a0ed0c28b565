"""What Drystone adds to Airflow's own server: the page behind the link *Report* of each run's last task.

Airflow's programs load plugins before they fork, so what DAG files import is imported here: their children, which run
tasks and parse DAG files, then have it already.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from airflow.plugins_manager import AirflowPlugin

from drystone.airflow import ingest, lifecycle, major  # noqa: F401 -- see above
from drystone.airflow.report_link import PREFIX
from drystone.airflow.run_report import read_report
from drystone.bucket import open_bucket
from drystone.config.load import load


class Pages:
    """An ASGI app that is made by its first request: every Airflow program loads plugins, and only one serves pages."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        await self._app(scope, receive, send)

    @cached_property
    def _app(self) -> Any:
        from airflow.api_fastapi.auth.managers.models.resource_details import AccessView  # noqa: PLC0415 -- see above
        from airflow.api_fastapi.core_api.security import requires_access_view  # noqa: PLC0415

        from drystone.viewer.reports import application  # noqa: PLC0415

        return application(_read, requires_access_view(AccessView.PLUGINS))


def _read(stream: str, run: str) -> str | None:
    loaded = load()
    if stream not in loaded.config.streams:
        return None
    report = read_report(open_bucket(loaded.bucket_url(stream)), stream, run)
    return None if report is None else report.to_markdown()


class DrystonePlugin(AirflowPlugin):
    """Loaded by plugins/drystone_plugin.py. Whoever may see plugins in Airflow may see reports; nobody else."""

    name = "drystone"
    fastapi_apps = [{"app": Pages(), "url_prefix": PREFIX, "name": "Drystone"}]  # noqa: RUF012 -- Airflow's interface
