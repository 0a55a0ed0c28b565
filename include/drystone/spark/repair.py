"""The repair job: the verb, with Spark to read a file that takes the place of a source's rows."""

from __future__ import annotations

from pathlib import Path

from drystone.engine.outcome import Outcome
from drystone.engine.reupload import upload_replacement
from drystone.jobs import RepairRequest
from drystone.plan.model import Reupload
from drystone.spark.context import JobContext
from drystone.spark.upload import read_files
from drystone.verbs import repair as verb


def run(job: JobContext, request: RepairRequest) -> Outcome:
    """See `verbs.repair.run`; a file is read as an ingest reads it, derived columns included."""
    return verb.run(job, request, job.loaded.path.parent, lambda action: _upload(job, action))


def _upload(job: JobContext, action: Reupload) -> list[str]:
    frame, schema = read_files(job, [Path(action.path)])
    # Its rows are held in memory: it is one file.
    rows = frame.select(*(f"`{column.name}`" for column in schema.columns)).toArrow()
    return upload_replacement(job, action, rows, schema)
