"""The workflow `<stream>__erase`: rows that match are gone for readers at once, then from every block.

Source: the design, "Airflow: DAGs", "Blocks: lifecycle verbs" (erase).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param
from airflow.sdk.exceptions import AirflowFailException

from drystone.airflow import params
from drystone.airflow.common import Stream, streams
from drystone.airflow.compaction import compaction
from drystone.airflow.editing import editing
from drystone.airflow.removal import removal
from drystone.airflow.step import author_of

DOC = """\
Erases rows for good. Start it with *Dry run* first: the log of **plan_rewrite** tells how many rows match, and where.

1. **plan_edit**: the edit, and how many rows it takes at most, kept as a plan.
2. **approve**: asks for a yes to that plan, by its digest, if *Ask first* is set; no answer within a day is a no. A
   plan holds for `plan_ttl`: a later yes needs another run.
3. **write_edit**: writes the erase edit; from then on readers leave such rows out. The same form again is the same
   edit. Without *Rows* these three are passed over, and the run goes on with every erasure that is still open.
4. **plan_rewrite → rewrite → rewritten**: a Spark job looks through the blocks that may hold such rows, once; those
   that do are written anew, without them; then syncDelay.
5. **mark → delete_delay → sweep**: the old blocks are marked, and deleted after deleteDelay.
6. **receipt**: keeps what was checked, and what is left; `drystone erase status` shows it.
7. **report**: what was done, as an object in the bucket and in the log.

What cannot be done now (a held block, a long read) leaves the erasure open: start the workflow again without *Rows*.
"""


def dags() -> dict[str, DAG]:
    """Return the erase DAG of every stream, by id."""
    return {dag.dag_id: dag for dag in map(build, streams())}


def form() -> dict[str, Param]:
    """Return the fields of the form."""
    return {
        "where": params.text("Rows", 'Such as {"column": "customer", "op": "=", "value": 17}; none: go on.', r"^\s*\{"),
        "reason": params.text("Reason", "Why: it is kept in the edit, the receipt and the log. Needed with Rows."),
        "key": params.text("Key", "Tells an equal request of before apart, for rows that came since then."),
        "approval": params.approval(),
        "dry_run": params.dry_run(default=True),
    }


def build(stream: Stream) -> DAG:
    """Return the erase DAG of one stream."""
    dag = stream.dag("erase", DOC, form(), schedule=None, max_active_runs=1)
    with dag:
        write = editing(stream, "write_edit", erase_request)
        batches = stream.batches

        def rewrite_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
            """Return the request of a plan: in a dry run it takes the edit for written."""
            proposed = erase_request(context) if context["params"]["dry_run"] else None
            return {"kind": "rewrite", "batches": batches, "proposed": proposed}

        plan, rewritten = compaction(stream, "rewrite", "rewrite", "rewritten", request=rewrite_request)
        write >> plan
        removal(stream, rewritten, stream.step("receipt", "receipt", request={}))
    return dag


def erase_request(context: Mapping[str, Any], **_: object) -> dict[str, Any] | None:
    """Return the request for an edit, as the form asks for it; None where it names no rows."""
    given = context["params"]
    if not given["where"]:
        return None
    try:
        predicate = json.loads(given["where"])
    except ValueError as error:
        raise AirflowFailException(f"Rows: this is no JSON: {error}. Correct it in the form.") from None
    return {
        "predicate": predicate,
        "reason": given["reason"] or "",
        "key": given["key"] or "",
        "author": author_of(context),
    }
