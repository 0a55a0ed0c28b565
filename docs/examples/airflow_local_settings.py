"""Tells a web hook when a run of Drystone fails, and when an ingest has not ended in time.

Airflow loads this file from `$AIRFLOW_HOME/config`, in every program. The HTTP connection `drystone_alerts` says where
the hook is; any other notifier of Airflow's providers (Slack, e-mail, PagerDuty) takes its place in the same way.
"""

from __future__ import annotations

from datetime import timedelta

__all__ = ["dag_policy", "task_policy"]

CONNECTION = "drystone_alerts"
FAILED = "{{ dag.dag_id }}, run {{ run_id }}: {{ exception }}"
"""Every run of Drystone ends in a task that fails if any other task of the run did, and says which."""
LAST_TASKS = {"ReportOperator", "FleetOperator"}


def task_policy(task):  # noqa: ANN001, ANN201 -- Airflow's names; it is called for every task of every DAG
    """Have the last task of each run tell of its failure, once: it is not tried again."""
    if task.task_type in LAST_TASKS:
        from airflow.providers.http.notifications import HttpNotifier  # noqa: PLC0415 -- Airflow is still starting

        task.on_failure_callback = [HttpNotifier(http_conn_id=CONNECTION, json={"text": FAILED})]


def dag_policy(dag):  # noqa: ANN001, ANN201 -- as above
    """Give each ingest until its stream's `lag_limit`, counted from when its run was queued."""
    if "drystone" not in dag.tags or not dag.dag_id.endswith("__ingest"):
        return
    from airflow.providers.http.notifications import HttpNotifier  # noqa: PLC0415 -- as above
    from airflow.sdk import AsyncCallback, DeadlineAlert, DeadlineReference  # noqa: PLC0415

    from drystone.config.load import load  # noqa: PLC0415

    limit = load().stream(dag.dag_id.removesuffix("__ingest")).lag_limit
    if limit is not None:
        text = f"{dag.dag_id}: a run has not ended {timedelta(milliseconds=limit)} after it was queued."
        dag.deadline = DeadlineAlert(
            reference=DeadlineReference.DAGRUN_QUEUED_AT,
            interval=timedelta(milliseconds=limit),
            callback=AsyncCallback(HttpNotifier, kwargs={"http_conn_id": CONNECTION, "json": {"text": text}}),
        )
