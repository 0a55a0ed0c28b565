"""The workflow `<stream>__retire`: the rows of sources or blocks are gone for readers at once, then from every block.

Source: the design, "Visibility: edits", "Blocks: lifecycle verbs".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param

from drystone.airflow import params
from drystone.airflow.common import Stream, streams
from drystone.airflow.compaction import compaction
from drystone.airflow.editing import editing
from drystone.airflow.removal import removal
from drystone.airflow.step import author_of

DOC = """\
Takes the rows of sources away, for good: of a file that should not have been ingested, of a block of wrong rows.

1. **plan_edit**: which sources and blocks go, kept as a plan. What the sources replaced, and what replaced them, goes
   with them.
2. **approve**: asks for a yes to that plan, by its digest, if *Ask first* is set; no answer within a day is a no. A
   plan holds for `plan_ttl`: a later yes needs another run.
3. **retire**: writes the retire edit; from then on readers leave these rows out. The same form again is the same edit.
4. **plan_rewrite → rewrite → rewritten**: blocks that hold other sources besides are written anew; then syncDelay.
5. **mark → delete_delay → sweep**: blocks that nobody reads any more are marked, and deleted after deleteDelay.
6. **report**: what was done, as an object in the bucket and in the log.

With *Dry run* the log of **plan_edit** shows which sources and blocks would go.
"""


def dags() -> dict[str, DAG]:
    """Return the retire DAG of every stream, by id."""
    return {dag.dag_id: dag for dag in map(build, streams())}


def form() -> dict[str, Param]:
    """Return the fields of the form."""
    return {
        "sources": params.ulids("Sources", "Sources by id, one a line."),
        "blocks": params.blocks("Blocks by ULID, one a line: all of their sources."),
        "reason": params.text("Reason", "Why: it is kept in the edit and in the log. Needed."),
        "approval": params.approval(),
        "dry_run": params.dry_run(default=True),
    }


def build(stream: Stream) -> DAG:
    """Return the retire DAG of one stream."""
    dag = stream.dag("retire", DOC, form(), schedule=None, max_active_runs=1)
    with dag:
        plan, rewritten = compaction(stream, "rewrite", "rewrite", "rewritten")
        editing(stream, "retire", retire_request) >> plan
        removal(stream, rewritten)
    return dag


def retire_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request, as the form asks for it."""
    given = context["params"]
    return {
        "sources": given["sources"] or [],
        "blocks": given["blocks"] or [],
        "reason": given["reason"] or "",
        "author": author_of(context),
    }
