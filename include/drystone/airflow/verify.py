"""The workflow `<stream>__verify`: whether everything is there, and is what was written.

Source: the design, "Airflow: DAGs", "Blocks: lifecycle verbs" (verify).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG

from drystone.airflow import assets, params
from drystone.airflow.common import Stream, streams

DOC = """\
Checks a stream, and changes nothing. **verify → report**: sizes of all files, each block's index against its meta.json,
and that every source is read exactly once; with *Read every file* also hashes, row groups against the index, sort
order, sources and content checksums. The run fails if rows are damaged; its log names every finding, and what to do.
Runs daily, unless the stream's lifecycle is only started by hand.
"""


def dags() -> dict[str, DAG]:
    """Return the verify DAG of every stream, by id."""
    return {dag.dag_id: dag for dag in map(build, streams())}


def build(stream: Stream) -> DAG:
    """Return the verify DAG of one stream."""
    form = {
        "deep": params.flag("Read every file", "Takes as long as reading the stream does.", default=False),
        "dry_run": params.dry_run(),
    }
    schedule = "@daily" if stream.config.lifecycle.schedule else None
    dag = stream.dag("verify", DOC, form, schedule=schedule, max_active_runs=1)
    with dag:
        verify = stream.spark("verify", "verify", request=verify_request)
        report = stream.report(assets.maintained(stream.name), skip_event=True)
        verify >> report
    return dag


def verify_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request of a verification, as the form asks for it."""
    return {"deep": context["params"]["deep"]}
