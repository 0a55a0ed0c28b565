"""The part that workflows share which take rows away: mark what nobody reads, wait, delete, and report."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from airflow.sdk import TriggerRule

from drystone.airflow import assets, params
from drystone.airflow.common import Stream
from drystone.airflow.report import ReportOperator
from drystone.airflow.sensors import DeleteDelaySensor, marks_timeout


def removal(stream: Stream, before: Any, *last: Any) -> None:
    """Add `mark` → `delete_delay` → `sweep` after the task `before`, then the tasks of `last`, then `report`."""
    mark = stream.spark("mark", "mark")
    delay = DeleteDelaySensor(
        task_id="delete_delay", skip=params.DRY_RUN, timeout=marks_timeout(stream.times), **stream.where
    )
    chain = [before, mark, delay, stream.spark("sweep", "sweep"), *last, reported(stream)]
    for one, other in pairwise(chain):
        one >> other


def reported(stream: Stream) -> ReportOperator:
    """Return the task that ends a workflow which maintains a stream, whatever became of the others."""
    return ReportOperator(
        task_id="report",
        asset=assets.maintained(stream.name),
        skip_event=params.DRY_RUN,
        trigger_rule=TriggerRule.ALL_DONE,
        **stream.where,
    )
