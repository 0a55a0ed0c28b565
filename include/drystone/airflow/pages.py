"""Drystone's pages in Airflow's server: who may look, whose credentials they use, and where a run's page is."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from airflow.models.dagrun import DagRun
from airflow.utils.session import create_session

from drystone import clock
from drystone.airflow import fleet_pages
from drystone.airflow.access import access
from drystone.airflow.run_report import read_report
from drystone.airflow.runs import run_name
from drystone.bucket import Bucket
from drystone.config.load import Loaded, load
from drystone.viewer import blocks, reports
from drystone.viewer.app import application
from drystone.viewer.shelf import Shelf

_SHORTENED = re.compile(r"-[0-9a-f]{10}$")
_RUNS_LOOKED_AT = 1000


def pages() -> Any:
    """Return the app of all pages. Whoever may see plugins in Airflow may look; nobody can change anything by it."""
    shelf = Shelf(load, _bucket, clock.system)
    own = (reports.routes(_report), blocks.routes(shelf, run_page, fleet_pages.kept, clock.system))
    return application(requires_access_view(AccessView.PLUGINS), *own, *fleet_pages.routers())


def _bucket(loaded: Loaded, stream: str) -> Bucket:
    return access(loaded, stream).open()


def _report(stream: str, run: str) -> str | None:
    loaded = load()
    if stream not in loaded.config.streams:
        return None
    report = read_report(_bucket(loaded, stream), stream, run)
    return None if report is None else report.to_markdown()


def run_page(job: str) -> str | None:
    """Return the address of the page of the DAG run that a job of this name (`runs.job_name`) was part of.

    It is seen from the root of Airflow's pages. None for a job that no DAG run started, and for a run that Airflow
    does not know (any more). A DAG id that was shortened in the name is not looked for.
    """
    dag_id, _, rest = job.partition(".")
    run, _, task = rest.partition(".")
    if not task or _SHORTENED.search(dag_id):
        return None
    run_id = _run_id(dag_id, run)
    return None if run_id is None else f"dags/{quote(dag_id, safe='')}/runs/{quote(run_id, safe='')}"


def _run_id(dag_id: str, part: str) -> str | None:
    """Return the id of the run whose name has this part; only one that was made safe or shortened must be sought."""
    with create_session() as session:
        known = session.query(DagRun.run_id).filter(DagRun.dag_id == dag_id)
        if not _SHORTENED.search(part):
            known = known.filter(DagRun.run_id == part)
        newest = known.order_by(DagRun.id.desc()).limit(_RUNS_LOOKED_AT)
        name = f"{dag_id}.{part}"
        return next((run_id for (run_id,) in newest if run_name(dag_id, run_id) == name), None)
