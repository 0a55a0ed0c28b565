"""One step as an Airflow task: what moves no bytes is done by the task itself, and leaves the result object of a job.

Source: the design, "Airflow: how people use it", "Blocks: lifecycle verbs".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator, Context

from drystone import jobs
from drystone.airflow.access import access
from drystone.airflow.failures import as_task_failure, result_failure
from drystone.airflow.operator import is_true
from drystone.airflow.outcome import RESULT_XCOM, Summary, mapped_batches, summarize
from drystone.airflow.runs import job_name
from drystone.config.load import load

Request = Mapping[str, Any] | Callable[..., Mapping[str, Any] | None]
"""A step's request, or a function (context, jinja_env) that makes it when the task runs; None: nothing is asked for."""


class DrystoneStepOperator(BaseOperator):
    """Does one step (`drystone.jobs.Step`), and decides by its result, as `DrystoneSparkOperator` does for a job.

    Every step is idempotent: another try, or the same form again, changes nothing more. With a request that is None
    there is nothing to do, and whatever comes next goes on. XCom: a summary of numbers, under `result`, too.
    """

    template_fields: Sequence[str] = ("step", "request", "plan_only")
    template_fields_renderers = {"request": "json"}  # noqa: RUF012 -- Airflow declares it as an instance variable
    ui_color = "#e9f3e6"

    def __init__(
        self,
        *,
        step: str,
        stream: str,
        config_file: str,
        request: Request | None = None,
        plan_only: bool | str = False,
        plans: bool = False,
        **kwargs: Any,
    ) -> None:
        """`step`, `request` and `plan_only` may be templates; `plan_only`: a dry run.

        `plans`: the step makes a plan, and its XCom are the batches of that, as a job's that plans.
        """
        super().__init__(**kwargs)
        self.step = step
        self.stream = stream
        self.config_file = config_file
        self.request = request
        self.plan_only = plan_only
        self.plans = plans

    def execute(self, context: Context) -> Summary | list[dict[str, object]] | None:
        """Do it, write the result, tell."""
        if self.request is None:
            self.log.info("The form asks for nothing here.")
            return None
        instance = context["ti"]
        run = job_name(instance.dag_id, instance.run_id, instance.task_id)
        with as_task_failure():
            loaded = load(Path(self.config_file))
            bucket = access(loaded, self.stream).open()
            # It loads Arrow, which no other task needs, and the parsing of DAG files least of all.
            steps = import_module("drystone.verbs.steps")
            result: jobs.JobResult = steps.run_step(
                self.step, loaded, self.stream, run, self.request, bucket, dry_run=is_true(self.plan_only)
            )
            key = jobs.result_key(self.stream, run)
            bucket.put(key, result.to_json())
        self.log.info("%s", result.report)
        if not result.ok:
            raise result_failure(result)
        summary = summarize(result, key)
        instance.xcom_push(key=RESULT_XCOM, value=summary)
        return mapped_batches(result) if self.plans else summary


def author_of(context: Mapping[str, Any]) -> str:
    """Return who started the run, or the DAG's id where nobody did."""
    run = context["dag_run"]
    return getattr(run, "triggering_user_name", None) or str(run.dag_id)
