"""The workflow `<stream>__backfill` of a parsed stream from Kafka: a wrong range, a plan, a person's yes, new rows.

Source: the design, "Ingest: backfill".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param

from drystone.airflow import assets, params
from drystone.airflow.approval import PlanApproval
from drystone.airflow.common import Stream, streams
from drystone.airflow.operator import DrystoneSparkOperator
from drystone.airflow.sensors import BlocksReadySensor, ready_timeout
from drystone.config.ingest import KafkaIngest

DOC = """\
Parses the messages of a wrong range anew, with the parser that is configured now, and puts the new rows in place of
the old ones, while ingest goes on. Messages that Kafka has deleted come from the backup stream. Start it with *Dry run*
first: the log of **plan** shows what would be done.

1. **plan**: a Spark job finds the ingest plans of the range by their names, and keeps a plan as an object.
2. **approve**: asks for a yes to that plan, by its digest, if *Ask first* is set; no answer within a day is a no.
3. **backfill → ready**: parses, checks and uploads; then syncDelay. Until then readers see the old rows.
4. **report**: what was done, as an object in the bucket and in the log.

What was a dead letter and can be parsed now becomes a row, and the other way round. The lifecycle takes away what has
been replaced.
"""


def dags() -> dict[str, DAG]:
    """Return the backfill DAG of every stream whose messages are parsed, by id."""
    parsed = (each for each in streams() if _is_parsed(each))
    return {dag.dag_id: dag for dag in map(build, parsed)}


def _is_parsed(stream: Stream) -> bool:
    ingest = stream.config.ingest
    return isinstance(ingest, KafkaIngest) and ingest.group == "partition"


def form() -> dict[str, Param]:
    """Return the fields of the form."""
    moment = r"^\d{4}-\d{2}-\d{2}"
    return {
        "offsets": params.offsets(),
        "start": params.text("From", "Or by the rows' own time, in ISO-8601 (UTC) …", moment),
        "end": params.text("To", "… up to this moment, exclusive.", moment),
        "reason": params.text("Reason", "Why: it is kept in the audit log."),
        "approval": params.approval(),
        "dry_run": params.dry_run(default=True),
    }


def build(stream: Stream) -> DAG:
    """Return the backfill DAG of one stream."""
    dag = stream.dag("backfill", DOC, form(), schedule=None, max_active_runs=1)
    with dag:
        plan = stream.spark("plan", "backfill", request=request_of(stream), plans=True)
        approve = PlanApproval(task_id="approve", ask="{{ params.approval }}", plan=plan.output)
        backfill = DrystoneSparkOperator.partial(
            task_id="backfill", map_index_template="{{ task.batch_label }}", **stream.spark_arguments("backfill")
        ).expand_kwargs(plan.output)
        ready = BlocksReadySensor(
            task_id="ready", results=backfill.output, timeout=ready_timeout(stream.times), **stream.where
        )
        report = stream.report(assets.maintained(stream.name))
        plan >> approve >> backfill >> ready >> report
    return dag


def request_of(stream: Stream) -> Any:
    """Return what makes the request of a plan, as the form asks for it."""

    def request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
        given = context["params"]
        interval = (given["start"], given["end"]) if given["start"] and given["end"] else None
        fields = {"offsets": given["offsets"] or [], "interval": interval, "reason": given["reason"] or ""}
        return fields | {"batches": stream.batches}

    return request
