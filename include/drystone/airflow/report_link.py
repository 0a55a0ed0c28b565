"""The link from a run's last task to the page of its report."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from airflow.sdk import BaseOperatorLink

from drystone.airflow.runs import run_name

PREFIX = "/drystone"
"""Where Airflow's server has Drystone's pages."""


class ReportLink(BaseOperatorLink):
    """Shown as a button on the task's page once the task has run."""

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the address of the report's page on Airflow's own server."""
        return f"{PREFIX}/reports/{operator.stream}/{quote(run_name(ti_key.dag_id, ti_key.run_id), safe=':+')}"
