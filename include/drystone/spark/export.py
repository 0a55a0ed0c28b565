"""The export job: the workers write files; only the driver asks Kafka."""

from __future__ import annotations

from functools import partial

from drystone.engine.outcome import Outcome
from drystone.jobs import ExportRequest
from drystone.spark.context import JobContext
from drystone.verbs import export
from drystone.verbs.look_at_kafka import look_at_kafka


def run(job: JobContext, request: ExportRequest) -> Outcome:
    """See `drystone.verbs.export.run`."""
    return export.run(job, request, partial(look_at_kafka, job))
