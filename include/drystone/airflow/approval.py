"""A person's yes to a plan, where the form asks for one.

Source: the design, "Airflow: how people use it": approval has a timeout that defaults to reject, and is bound to the
plan's digest.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from drystone.airflow.operator import is_true

WITHIN = timedelta(hours=24)


class PlanApproval(ApprovalOperator):
    """Waits for a person's yes or no to the plan of the task before it; no answer within 24 hours is a no.

    What is asked names the plan's key and digest, and the tasks that come after carry out no other: the digest is part
    of their request. `ask`: a template; where it is not true, nobody is asked. A plan without actions needs no yes.
    """

    template_fields: Collection[str] = (*ApprovalOperator.template_fields, "ask", "plan")
    ui_color = "#f7e8ee"

    def __init__(self, *, ask: bool | str, plan: Any, **kwargs: Any) -> None:
        """`plan`: the XCom of the task that planned, a list of batches."""
        subject = kwargs.pop("subject", "Carry out the plan of {{ dag.dag_id }}?")
        super().__init__(
            subject=subject, defaults=self.REJECT, response_timeout=kwargs.pop("response_timeout", WITHIN), **kwargs
        )
        self.ask = ask
        self.plan = plan

    def execute(self, context: Context) -> Any:
        """Ask, unless there is nothing to ask about."""
        batches = list(self.plan or ())
        if not batches or not is_true(self.ask):
            self.log.info("Nobody is asked: %s.", "the form does not want it" if batches else "the plan has no actions")
            return None
        request = batches[0]["request"]
        lines = [f"* {batch['batch_label']}" for batch in batches]
        self.body = "\n".join(
            [f"Plan `{request['plan_key']}`, digest `{request['digest']}`; its log shows every action.", "", *lines]
        )
        return super().execute(context)
