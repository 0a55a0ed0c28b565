"""The event of a stream of dead letters: only after an ingest that had some."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, BaseOperator, Context
from airflow.sdk.exceptions import AirflowSkipException

from drystone.airflow.access import access
from drystone.airflow.failures import as_task_failure
from drystone.airflow.outcome import read_result
from drystone.airflow.sensors import result_keys
from drystone.config.load import load


class DeadLettersOperator(BaseOperator):
    """Tells other workflows that a stream of dead letters has new blocks; skipped if it has none.

    `results`: the XComs of the jobs that may have uploaded some, on behalf of another stream in the same bucket.
    """

    template_fields: Sequence[str] = ("results",)
    ui_color = "#f0ead6"

    def __init__(self, *, stream: str, config_file: str, results: Any, asset: Asset, **kwargs: Any) -> None:
        """`stream`: that of the dead letters; `asset`: whose event tells."""
        super().__init__(outlets=[asset], **kwargs)
        self.stream = stream
        self.config_file = config_file
        self.results = results

    def execute(self, context: Context) -> int:  # noqa: ARG002 -- Airflow's signature
        """Return how many blocks there are."""
        with as_task_failure():
            bucket = access(load(Path(self.config_file)), self.stream).open()
            results = [read_result(bucket, key) for key in result_keys(self.results)]
        blocks = sum(len(found.other_blocks.get(self.stream, ())) for found in results if found is not None)
        if not blocks:
            raise AirflowSkipException("No message was a dead letter.")
        self.log.info("%d blocks of dead letters are new.", blocks)
        return blocks
