"""The workflow `<stream>__major_compaction`: whole time chunks sorted and rolled up, and nothing else.

Source: the design, "Airflow: DAGs", "Compaction: planning".
"""

from __future__ import annotations

from airflow.sdk import DAG

from drystone.airflow import assets, params
from drystone.airflow.common import Stream, streams
from drystone.airflow.compaction import compaction

DOC = """\
Sorts whole time chunks that are due and rolls them up to the coarser granularity.

**plan_major → compact → ready → report**. The blocks that the new ones cover stay until the lifecycle marks and deletes
them. Runs daily, unless the stream's lifecycle is only started by hand.
"""


def dags() -> dict[str, DAG]:
    """Return the major compaction DAG of every stream, by id."""
    return {dag.dag_id: dag for dag in map(build, streams())}


def build(stream: Stream) -> DAG:
    """Return the major compaction DAG of one stream."""
    schedule = "@daily" if stream.config.lifecycle.schedule else None
    dag = stream.dag("major_compaction", DOC, {"dry_run": params.dry_run()}, schedule=schedule, max_active_runs=1)
    with dag:
        _, ready = compaction(stream, "major", "compact", "ready")
        report = stream.report(assets.maintained(stream.name))
        ready >> report
    return dag
