"""The workflow `<stream>__export`: a backup stream's messages as Secor's files.

Source: the design, "Ingest: formats".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG

from drystone.airflow import assets, params
from drystone.airflow.common import Stream, streams
from drystone.config.export import ExportConfig
from drystone.config.ingest import KafkaIngest

DOC = """\
Copies the messages of a backup stream into files, each message into one: **export → report**. What is ingested and can
be read is exported, what is there already is left as it is; days or hours that are finished get their `_SUCCESS`. With
*Everything again* files that are missing are written anew, with the same bytes. A plan whose messages the format cannot
hold stops no other one, and fails the run.
"""


def dags() -> dict[str, DAG]:
    """Return the export DAG of every stream that has an export, by id."""
    return {dag.dag_id: dag for dag in map(build, streams()) if dag is not None}


def build(stream: Stream) -> DAG | None:
    """Return the export DAG of one stream, None where nothing is exported."""
    export = stream.config.ingest.export if isinstance(stream.config.ingest, KafkaIngest) else None
    if export is None:
        return None
    form = {
        "topics": params.text("Topics", "A regular expression for whole names; by default all topics of the stream."),
        "again": params.flag("Everything again", "Files that are missing are written anew.", default=False),
        "dry_run": params.dry_run(),
    }
    dag = stream.dag("export", DOC, form, schedule=_schedule(stream, export), max_active_runs=1)
    with dag:
        task = stream.spark("export", "export", request=export_request)
        report = stream.report(assets.exported(stream.name))
        task >> report
    return dag


def export_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request of an export, as the form asks for it."""
    return {name: context["params"][name] for name in ("topics", "again")}


def _schedule(stream: Stream, export: ExportConfig) -> Any:
    return [assets.ingested(stream.name)] if export.schedule == "asset" else export.schedule
