"""The workflow `<stream>__repair`: a form, a plan, a person's yes, and what was planned carried out.

Source: the design, "Airflow: DAGs", "Blocks: lifecycle verbs" (repair).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param

from drystone.airflow import assets, params
from drystone.airflow.approval import PlanApproval
from drystone.airflow.common import Stream, streams
from drystone.airflow.operator import DrystoneSparkOperator
from drystone.airflow.sensors import BlocksReadySensor, DeleteDelaySensor, marks_timeout, ready_timeout
from drystone.jobs import REPAIR_KINDS

DOC = """\
What a person does about blocks that no lifecycle can put right: remove what is broken, rewrite a block, drop rows, put
a corrected file in place of a source's rows, adopt blocks from elsewhere. Start it with *Dry run* first: the log of
**plan** shows every action.

1. **plan**: a Spark job finds what the form asks for, and keeps the plan as an object.
2. **approve**: asks for a yes to that plan, by its digest, if *Ask first* is set; no answer within a day is a no.
3. **repair → ready**: carries the plan out; then syncDelay.
4. **mark → delete_delay → sweep**: what the new blocks cover is marked, and deleted after deleteDelay.
5. **report**: what was done, as an object in the bucket and in the log.
"""


def dags() -> dict[str, DAG]:
    """Return the repair DAG of every stream, by id."""
    return {dag.dag_id: dag for dag in map(build, streams())}


def form() -> dict[str, Param]:
    """Return the fields of the form."""
    return {
        "kind": params.choice("Repair", "What to do; docs/how-to/repair.md says when.", *REPAIR_KINDS),
        "blocks": params.blocks("The blocks that it is about, by ULID, one a line; none: all that the repair finds."),
        "where": params.text("Rows", 'For drop-rows: {"column": "city", "op": "=", "value": "Oslo"}.', r"^\s*\{"),
        "source": params.text("Source", "For reupload: the source whose rows are replaced.", "^[0-7][0-9A-Z]{25}$"),
        "path": params.text("File", "For reupload: the corrected rows; relative to the configuration file."),
        "origin": params.text(
            "Other bucket", "For adopt: the address where the blocks lie, if not in the stream itself."
        ),
        "origin_stream": params.text("Other stream", "For adopt: the stream's name there, if it is another."),
        "reason": params.text("Reason", "Why: it is kept in the audit log. What once was whole goes only with one."),
        "approval": params.approval(),
        "dry_run": params.dry_run(default=True),
    }


def build(stream: Stream) -> DAG:
    """Return the repair DAG of one stream."""
    dag = stream.dag("repair", DOC, form(), schedule=None, max_active_runs=1)
    with dag:
        plan = stream.spark("plan", "repair", request=repair_request, plans=True)
        approve = PlanApproval(task_id="approve", ask="{{ params.approval }}", plan=plan.output)
        repair = DrystoneSparkOperator.partial(
            task_id="repair", map_index_template="{{ task.batch_label }}", **stream.spark_arguments("repair")
        ).expand_kwargs(plan.output)
        ready = BlocksReadySensor(
            task_id="ready", results=repair.output, timeout=ready_timeout(stream.times), **stream.where
        )
        mark = stream.spark("mark", "mark")
        delay = DeleteDelaySensor(
            task_id="delete_delay", skip=params.DRY_RUN, timeout=marks_timeout(stream.times), **stream.where
        )
        sweep = stream.spark("sweep", "sweep")
        report = stream.report(assets.maintained(stream.name))
        plan >> approve >> repair >> ready >> mark >> delay >> sweep >> report
    return dag


def repair_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request of a plan, as the form asks for it."""
    given = context["params"]
    return {
        "kind": given["kind"],
        "blocks": given["blocks"] or [],
        "where": json.loads(given["where"]) if given["where"] else None,
        "source": given["source"],
        "path": given["path"],
        "origin": given["origin"],
        "origin_stream": given["origin_stream"],
        "reason": given["reason"] or "",
    }
