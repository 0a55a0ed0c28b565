"""The part that workflows share in which a person takes rows away: plan the edit, ask for a yes, write it.

Source: the design, "Airflow: DAGs": plan → (approval) → act, and approval is bound to the plan's digest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from drystone.airflow.approval import PlanApproval
from drystone.airflow.common import Stream
from drystone.airflow.step import DrystoneStepOperator, author_of

PLAN = "plan_edit"


def editing(
    stream: Stream, write: str, request: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]
) -> DrystoneStepOperator:
    """Add `plan_edit` → `approve` → `write` to the DAG, and return the last, which carries out that plan and no other.

    `request`: of the erasure or retirement, from the form; None: nothing is asked for, and all three pass it over.
    """

    def plan_request(context: Mapping[str, Any], **_: object) -> dict[str, Any] | None:
        """Return the request of the plan, as the form asks for it."""
        asked = request(context)
        return None if asked is None else {"asked": asked}

    def carry_out_request(context: Mapping[str, Any], **_: object) -> dict[str, Any] | None:
        """Return the request to carry out what was planned; None if there is nothing to do."""
        batches = context["ti"].xcom_pull(task_ids=PLAN)
        if not batches:
            return None
        bound = batches[0]["request"]
        return {"plan_key": bound["plan_key"], "digest": bound["digest"], "author": author_of(context)}

    plan = stream.step(PLAN, "plan", request=plan_request, plans=True)
    approve = PlanApproval(task_id="approve", ask="{{ params.approval }}", plan=plan.output)
    act = stream.step(write, "carry-out", request=carry_out_request)
    plan >> approve >> act
    return act
