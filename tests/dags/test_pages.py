"""Drystone's pages in Airflow's server: nothing can be written by them, and a job's name leads to its run."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from drystone.airflow.runs import job_name

DAG_ID = "events__lifecycle"


def test_every_route_only_reads() -> None:
    """All pages together offer GET and nothing else."""
    from drystone.airflow.pages import pages  # noqa: PLC0415 -- after the environment is set

    routes = [route for route in pages().routes if isinstance(route, APIRoute)]
    assert len(routes) > 7
    assert len(routes) == len(pages().routes)
    assert {method for route in routes for method in route.methods} == {"GET"}


@pytest.fixture
def runs(database: Path) -> list[str]:
    """Runs that Airflow knows: ids that are names as they are, that have to be made safe, and that are long."""
    from airflow.models.dagrun import DagRun  # noqa: PLC0415 -- as above
    from airflow.utils.session import create_session  # noqa: PLC0415
    from airflow.utils.types import DagRunTriggeredByType, DagRunType  # noqa: PLC0415

    ids = ["scheduled__2026-01-02T00:00:00+00:00", "manual__2026-01-02T03:04:05.678901+00:00", "by~hand~" + "x" * 200]
    with create_session() as session:
        session.query(DagRun).filter(DagRun.dag_id == DAG_ID).delete()
        for number, run_id in enumerate(ids):
            session.add(
                DagRun(
                    dag_id=DAG_ID,
                    run_id=run_id,
                    run_type=DagRunType.MANUAL,
                    logical_date=datetime(2026, 1, 1 + number, tzinfo=UTC),
                    run_after=datetime(2026, 1, 1, tzinfo=UTC),
                    triggered_by=DagRunTriggeredByType.UI,
                )
            )
    return ids


def test_a_jobs_name_leads_to_its_run(runs: list[str]) -> None:
    """Whatever became of the run's id in the name of its job, its page is found; for what no run did there is none."""
    from drystone.airflow.pages import run_page  # noqa: PLC0415 -- as above

    found = [run_page(job_name(DAG_ID, run_id, "compact", 3)) for run_id in runs]
    assert found[0] == f"dags/{DAG_ID}/runs/scheduled__2026-01-02T00%3A00%3A00%2B00%3A00"
    assert found[1] == f"dags/{DAG_ID}/runs/manual__2026-01-02T03%3A04%3A05.678901%2B00%3A00"
    assert found[2] == f"dags/{DAG_ID}/runs/by~hand~{'x' * 200}"
    for name in ("terminal-01JZZZZZZZZZZZZZZZZZZZZZZZ", "a.b", job_name(DAG_ID, "deleted", "compact")):
        assert run_page(name) is None
    assert run_page(job_name(DAG_ID, "manual__gone.1", "compact")) is None
