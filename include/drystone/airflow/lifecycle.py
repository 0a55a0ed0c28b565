"""The workflow `<stream>__lifecycle`: overlaps and small blocks merged, chunks rolled up, what is covered deleted.

Source: the design, "Airflow: DAGs", "Blocks: the rules".
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG

from drystone.airflow import assets, params
from drystone.airflow.common import Stream, streams
from drystone.airflow.compaction import compaction
from drystone.airflow.sensors import DeleteDelaySensor, marks_timeout

DOC = """\
Takes a stream through the life of its blocks, once.

1. **plan_minor → compact_minor → minor_ready**: overlapping and small blocks of a time chunk are merged, in mapped
   batches; then syncDelay.
2. **plan_major → compact_major → major_ready**: whole chunks are sorted and rolled up, if due; then syncDelay.
3. **mark → delete_delay → sweep**: blocks that a ready one covers are marked, and deleted after deleteDelay.
4. **report**: what was done, as an object in the bucket, in the log, and in the asset event.

Each step decides from the bucket alone, so a run takes over what another one left. With *Dry run* every step shows
the plan that it would execute. One run at a time; started by hand, a run may overlap ingest.
"""


def dags() -> dict[str, DAG]:
    """Return the lifecycle DAG of every stream, by id."""
    return {dag.dag_id: dag for dag in map(build, streams())}


def schedule(stream: Stream) -> Any:
    """Return when the lifecycle runs: after an ingest, by cron, or by hand."""
    configured = stream.config.lifecycle.schedule
    return [assets.ingested(stream.name)] if configured == "asset" else configured


def build(stream: Stream) -> DAG:
    """Return the lifecycle DAG of one stream."""
    dag = stream.dag("lifecycle", DOC, {"dry_run": params.dry_run()}, schedule=schedule(stream), max_active_runs=1)
    with dag:
        _, minor_ready = compaction(stream, "minor", "compact_minor", "minor_ready")
        plan_major, major_ready = compaction(stream, "major", "compact_major", "major_ready")
        mark = stream.spark("mark", "mark")
        delay = DeleteDelaySensor(
            task_id="delete_delay", skip=params.DRY_RUN, timeout=marks_timeout(stream.times), **stream.where
        )
        sweep = stream.spark("sweep", "sweep")
        report = stream.report(assets.maintained(stream.name))
        minor_ready >> plan_major
        major_ready >> mark >> delay >> sweep >> report
    return dag
