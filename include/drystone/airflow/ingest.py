"""The workflow `<stream>__ingest`: files in, one block per source and time chunk, ready to be read.

Source: the design, "Airflow: DAGs", "Ingest: from files".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, TriggerRule

from drystone.airflow import assets, params
from drystone.airflow.common import Stream, streams
from drystone.airflow.report import ReportOperator
from drystone.airflow.sensors import BlocksReadySensor, ready_timeout

DOC = """\
Reads files into blocks, exactly once.

1. **upload**: a Spark job plans the files (create-only, so that a second run names the same sources), uploads one block
   per file and time chunk, and commits the plan. What is there already is left out.
2. **wait_until_ready**: waits, without a worker slot, until the new blocks are whole and past syncDelay.
3. **publish**: writes the run's report, whatever became of the rest, and tells other workflows what is new.

Several runs may go on at once: they know nothing of each other. Past intervals: `airflow backfill create`.
"""


def dags() -> dict[str, DAG]:
    """Return the ingest DAG of every stream, by id."""
    return {dag.dag_id: dag for dag in map(build, streams())}


def build(stream: Stream) -> DAG:
    """Return the ingest DAG of one stream."""
    ingest = stream.config.ingest
    schedule = CronDataIntervalTimetable(ingest.schedule, timezone="UTC") if ingest.schedule else None
    dag = stream.dag(
        "ingest",
        DOC,
        {"path": params.path(), "dry_run": params.dry_run()},
        schedule=schedule,
        start_date=datetime.fromisoformat(ingest.start_date).replace(tzinfo=UTC),
        max_active_runs=16,
    )
    with dag:
        upload = stream.spark("upload", "upload", request=upload_request)
        ready = BlocksReadySensor(
            task_id="wait_until_ready", results=upload.output, timeout=ready_timeout(stream.times), **stream.where
        )
        publish = ReportOperator(
            task_id="publish",
            asset=assets.ingested(stream.name),
            skip_event=params.DRY_RUN,
            trigger_rule=TriggerRule.ALL_DONE,
            **stream.where,
        )
        upload >> ready >> publish
    return dag


def upload_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request of an upload: the run's data interval, if it has one, and the form's path.

    A run that somebody starts by hand has no interval, or an empty one: then the path must not need one.
    """
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    interval = (start.isoformat(), end.isoformat()) if start and end and start < end else None
    return {"interval": interval, "path": context["params"]["path"]}
