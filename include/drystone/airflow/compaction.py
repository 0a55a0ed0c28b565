"""The part that workflows share: plan a compaction, carry it out in mapped batches, wait until its blocks are ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from airflow.sdk import TriggerRule

from drystone.airflow.common import Stream
from drystone.airflow.operator import DrystoneSparkOperator
from drystone.airflow.sensors import BlocksReadySensor, ready_timeout


def compaction(
    stream: Stream,
    kind: Literal["minor", "major", "rewrite"],
    compact: str,
    ready: str,
    request: Callable[..., Mapping[str, Any]] | None = None,
) -> tuple[DrystoneSparkOperator, BlocksReadySensor]:
    """Add `plan_<kind>` → `compact` (one mapped task per batch) → `ready` to the DAG; return the first and the last.

    The last goes on when there was nothing to compact, and when a batch failed: a compaction that fails stops no other
    work, every later step decides from the bucket, and the report fails the run in the end.

    `request`: makes the plan's request when its task runs, where it depends on the form.
    """
    plan = stream.spark(f"plan_{kind}", "detect", request=request or {"kind": kind, "batches": stream.batches})
    batches = DrystoneSparkOperator.partial(
        task_id=compact, map_index_template="{{ task.batch_label }}", **stream.spark_arguments("compact")
    ).expand_kwargs(plan.output)
    sensor = BlocksReadySensor(
        task_id=ready,
        results=batches.output,
        timeout=ready_timeout(stream.times),
        trigger_rule=TriggerRule.ALL_DONE,
        **stream.where,
    )
    plan >> batches >> sensor
    return plan, sensor
