"""One Drystone job as an Airflow task: `spark-submit`, and the job's result object turned into XCom or a failure.

Source: the design, "Airflow: how people use it".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context
from airflow.sdk.exceptions import AirflowException
from pydantic import ValidationError

from drystone import jobs
from drystone.airflow.access import Access, access
from drystone.airflow.failures import as_task_failure, failure, result_failure
from drystone.airflow.hook import SubmitHook, check_reachable, existing_connection, quiet
from drystone.airflow.lineage import openlineage
from drystone.airflow.outcome import RESULT_XCOM, Summary, mapped_batches, read_result, summarize
from drystone.airflow.runs import job_name
from drystone.bucket import Bucket
from drystone.config.load import Loaded, load
from drystone.errors import UsageError

Request = Mapping[str, Any] | Callable[..., Mapping[str, Any]]
"""A job's request, or a function (context, jinja_env) that makes it when the task runs."""


class DrystoneSparkOperator(SparkSubmitOperator):
    """Runs one job to its end and decides by the job's own result object, whatever spark-submit's exit code.

    * The run's name comes from the task instance, so every try of it writes the same result object.
    * No result object: the job died, which another try may survive (AirflowException).
    * A result that is not ok fails at once, with what to do next, unless the job says that it can be retried.
    * A missing connection is an error, and so is a local bucket on a cluster.
    * Credentials of the bucket's connection go into spark-submit's environment: see `drystone.airflow.access`.

    XCom: under `result` a summary of ids, keys and numbers; the return value is the same, or, of a plan, the list of
    batches that `DrystoneSparkOperator.partial(verb="compact", …).expand_kwargs(…)` takes.
    """

    template_fields: Sequence[str] = (*SparkSubmitOperator.template_fields, "request", "plan_only", "batch_label")
    template_fields_renderers = {"request": "json"}  # noqa: RUF012 -- Airflow declares it as an instance variable
    ui_color = "#e8eef7"

    def __init__(
        self,
        *,
        verb: jobs.Verb,
        stream: str,
        config_file: str,
        request: Request | None = None,
        plan_only: bool | str = False,
        plans: bool | None = None,
        batch_label: str = "",
        **kwargs: Any,
    ) -> None:
        """`request` and `plan_only` may be templates; `plan_only`: a dry run; `batch_label`: names a mapped task.

        `plans`: whether the job makes a plan whose batches are to be mapped over; by default `detect` does.
        """
        # In client mode the driver is a child of this task: there is nothing to reconnect to, and the provider would
        # take the id of another try for it. A new try submits again under the same name, which is what jobs expect.
        kwargs["durable"] = False
        super().__init__(**kwargs)
        self.verb = verb
        self.stream = stream
        self.config_file = config_file
        self.request = request
        self.plan_only = plan_only
        self.plans = verb == "detect" if plans is None else plans
        self.batch_label = batch_label
        self._result: jobs.JobResult | None = None

    def execute(self, context: Context) -> Any:
        """Submit, wait, read the result. Raises AirflowFailException or AirflowException as the class says."""
        with as_task_failure():
            loaded = load(Path(self.config_file))
            allowed = access(loaded, self.stream)
            bucket = allowed.open()
            run = _job_name(context)
            hook = self._prepare(loaded, run, allowed)
            key = jobs.result_key(self.stream, run)
            # What an earlier try left must not be taken for this one's.
            bucket.delete([key])
            if self._done_here(loaded, bucket, run, key):
                return self._conclude(context, bucket, key, "It was not Spark's.", report=True)
            ended = self._submit(context)
            return self._conclude(context, bucket, key, ended, report=not hook.shows_output)

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> Any:
        """Return what the job read and wrote, for OpenLineage's listener; nothing where it left no result."""
        from airflow.providers.openlineage.extractors import OperatorLineage  # noqa: PLC0415 -- it calls us

        if self._result is None:
            return OperatorLineage()
        request = self.request if isinstance(self.request, Mapping) else {}
        return openlineage(load(Path(self.config_file)), self.verb, request, self._result)

    def on_kill(self) -> None:
        """Stop spark-submit, if it was started."""
        if self._hook is not None:
            super().on_kill()

    def _prepare(self, loaded: Loaded, run: str, allowed: Access) -> SubmitHook:
        spark = loaded.config.spark
        self._conn_id = spark.connection
        existing_connection(self._conn_id)
        self.conf = quiet({**spark.conf, **(self.conf or {})})
        self.name = f"drystone-{self.stream}-{self.verb}"
        self.application = str(jobs.script(self.verb))
        self.application_args = self._arguments(loaded.path, run)
        self._hook = hook = self._get_hook()
        hook.access = allowed
        check_reachable(hook.master, loaded.bucket_url(self.stream), shared_filesystem=spark.shared_filesystem)
        return hook

    def _done_here(self, loaded: Loaded, bucket: Bucket, run: str, key: str) -> bool:
        """Do it in this process, if it is little, and write the result; return whether that was so."""
        # It loads Arrow, which the parsing of DAG files can do without.
        here = import_module("drystone.verbs.here")
        dry_run = is_true(self.plan_only)
        result = here.run_here(self.verb, loaded, self.stream, run, self.request or {}, bucket, dry_run=dry_run)
        if result is None:
            return False
        self.log.info("Done by this task itself: it reads no more than spark.local_bytes.")
        bucket.put(key, result.to_json())
        return True

    def _arguments(self, config: Path, run: str) -> list[str]:
        request = jobs.REQUESTS[self.verb]
        try:
            given = request.model_validate(self.request or {})
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"])
            raise UsageError(f"The request of {self.verb} is wrong: {where}: {first['msg']}.") from None
        found = ["--config", str(config), "--stream", self.stream, "--run", run, "--request", given.model_dump_json()]
        return [*found, "--dry-run"] if is_true(self.plan_only) else found

    def _get_hook(self) -> SubmitHook:
        return SubmitHook(
            conf=self.conf,
            conn_id=self._conn_id,
            files=self.files,
            py_files=self.py_files,
            archives=self._archives,
            jars=self.jars,
            packages=self.packages,
            executor_cores=self._executor_cores,
            executor_memory=self._executor_memory,
            driver_memory=self._driver_memory,
            name=self.name,
            num_executors=self._num_executors,
            application_args=self.application_args,
            spark_binary=self._spark_binary,
            properties_file=self.properties_file,
            deploy_mode=self._deploy_mode,
        )

    def _submit(self, context: Context) -> str:
        try:
            super().execute(context)
        except AirflowException as error:
            return str(error)
        return "spark-submit ended with exit code 0."

    def _conclude(
        self, context: Context, bucket: Bucket, key: str, ended: str, *, report: bool
    ) -> Summary | list[dict[str, object]]:
        result = read_result(bucket, key)
        if result is None:
            text = f"{self.verb} of {self.stream} left no result: it died, and can be run again. {ended}"
            raise failure(text, retryable=True)
        self._result = result
        if report and result.report:
            self.log.info("%s", result.report)
        if not result.ok:
            raise result_failure(result)
        summary = summarize(result, key)
        context["ti"].xcom_push(key=RESULT_XCOM, value=summary)
        return mapped_batches(result) if self.plans else summary


def is_true(value: bool | str) -> bool:  # noqa: FBT001 -- it is the value itself
    """Return what a rendered template such as `{{ params.dry_run }}` means."""
    return value if isinstance(value, bool) else value.strip().lower() == "true"


def _job_name(context: Context) -> str:
    instance = context["ti"]
    map_index = instance.map_index
    return job_name(instance.dag_id, instance.run_id, instance.task_id, -1 if map_index is None else map_index)
