"""The last task of a workflow: its report, in the bucket, in the log and in an asset event."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context, TaskInstanceState
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from pydantic import JsonValue

from drystone import clock
from drystone.airflow.access import access
from drystone.airflow.failures import as_task_failure
from drystone.airflow.metrics import emit
from drystone.airflow.operator import is_true
from drystone.airflow.report_link import ReportLink
from drystone.airflow.run_metrics import run_samples
from drystone.airflow.run_report import collect
from drystone.bucket import Bucket
from drystone.config.load import Loaded, load
from drystone.errors import DrystoneError
from drystone.verbs.metrics import stream_samples

_GOOD = {TaskInstanceState.SUCCESS, TaskInstanceState.SKIPPED}


class ReportOperator(BaseOperator):
    """Writes the run's report, then fails if any other task of the run did, so that the run's state tells the truth.

    The asset's event carries the report's key and sums. `skip_event`: a template that is true in a dry run, which has
    nothing to tell others: then this task is skipped once its report is written.
    """

    template_fields: Sequence[str] = ("skip_event",)
    operator_extra_links = (ReportLink(),)
    ui_color = "#f0ead6"

    def __init__(
        self, *, stream: str, config_file: str, asset: Asset, skip_event: bool | str = False, **kwargs: Any
    ) -> None:
        """`asset`: whose event tells other workflows."""
        super().__init__(outlets=[asset], **kwargs)
        self.stream = stream
        self.config_file = config_file
        self.asset = asset
        self.skip_event = skip_event

    def execute(self, context: Context) -> dict[str, JsonValue]:
        """Collect, write, tell."""
        instance = context["ti"]
        states = instance.get_task_states(instance.dag_id, run_ids=[instance.run_id]).get(instance.run_id, {})
        failed = [
            task
            for task, state in states.items()
            if task != instance.task_id and state is not None and state not in _GOOD
        ]
        with as_task_failure():
            loaded = load(Path(self.config_file))
            bucket = access(loaded, self.stream).open()
            report = collect(bucket, self.stream, instance.dag_id, instance.run_id, failed)
            bucket.put(report.key, report.model_dump_json(indent=1).encode())
        self.log.info("%s", report.to_markdown())
        emit(run_samples(report))
        self._look(loaded, bucket)
        if failed:
            raise AirflowFailException(f"{', '.join(report.failed)} did not succeed; see the log of each.")
        if is_true(self.skip_event):
            raise AirflowSkipException("A dry run changes nothing, so there is nothing to tell other workflows.")
        context["outlet_events"][self.asset].extra = report.numbers()
        return report.numbers()

    def _look(self, loaded: Loaded, bucket: Bucket) -> None:
        """Keep and emit how the stream is now; that it cannot be told is a warning, and no failure of the run."""
        # It loads Arrow, which the parsing of DAG files must not wait for.
        overviews = import_module("drystone.airflow.overviews")
        try:
            overview = overviews.look_and_keep(bucket, self.stream, loaded.stream(self.stream))
        except DrystoneError as error:
            overview = overviews.failed(loaded, self.stream, error, clock.system())
        if overview.error:
            self.log.warning("Stream %s could not be looked at: %s", self.stream, overview.error)
        emit(stream_samples(overview, overview.at))
