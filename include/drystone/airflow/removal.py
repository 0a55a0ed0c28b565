"""The part that workflows share which take rows away: mark what nobody reads, wait, delete, and report."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from drystone.airflow import assets, params
from drystone.airflow.common import Stream
from drystone.airflow.sensors import DeleteDelaySensor, marks_timeout


def removal(stream: Stream, before: Any, *last: Any) -> None:
    """Add `mark` → `delete_delay` → `sweep` after the task `before`, then the tasks of `last`, then `report`."""
    mark = stream.spark("mark", "mark")
    delay = DeleteDelaySensor(
        task_id="delete_delay", skip=params.DRY_RUN, timeout=marks_timeout(stream.times), **stream.where
    )
    chain = [before, mark, delay, stream.spark("sweep", "sweep"), *last, stream.report(assets.maintained(stream.name))]
    for one, other in pairwise(chain):
        one >> other
