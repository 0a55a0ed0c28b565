"""The workflow `<stream>__hold`: blocks held for a repair, released again, or unmarked.

Source: the design, "Blocks: guards".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param

from drystone.airflow import assets, params
from drystone.airflow.common import Stream, streams
from drystone.airflow.pools import remover_pool
from drystone.airflow.step import author_of
from drystone.config.durations import parse_duration

DOC = """\
Keeps removers and compactors off blocks, or off the whole stream, while a person looks into something.

* **hold**: under a name, for so long. Rely on it only after syncDelay: listings may lag, and a run that looked before
  may still act.
* **release**: takes the hold of that name away.
* **unmark**: takes the deletion mark of each block away; where it would be marked again, the block is held.

**act** does it, **report** tells. The same form again changes nothing.
"""


def dags() -> dict[str, DAG]:
    """Return the hold DAG of every stream, by id."""
    return {dag.dag_id: dag for dag in map(build, streams())}


def form() -> dict[str, Param]:
    """Return the fields of the form."""
    return {
        "action": params.choice("Action", "What to do.", "hold", "release", "unmark"),
        "name": params.text("Name", "The hold's name.", "^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"),
        "blocks": params.blocks("Blocks by ULID, one a line; for a hold, none: the whole stream; to unmark: just one."),
        "length": params.length("For how long", "2h", "Until when blocks are held, counted from now: 90min, 2h, 7d."),
        "reason": params.text("Reason", "Why: it is kept in the hold and in the log. Needed."),
        "dry_run": params.dry_run(),
    }


def build(stream: Stream) -> DAG:
    """Return the hold DAG of one stream."""
    dag = stream.dag("hold", DOC, form(), schedule=None, max_active_runs=1)
    with dag:
        # Unmarking is the remover's: one at a time.
        act = stream.step("act", "{{ params.action }}", request=hold_request, pool=remover_pool(stream.name))
        act >> stream.report(assets.maintained(stream.name))
    return dag


def hold_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request of the action that the form asks for."""
    given = context["params"]
    asked: dict[str, Any] = {"reason": given["reason"] or "", "author": author_of(context)}
    length = parse_duration(given["length"])
    match given["action"]:
        case "hold":
            return asked | {"name": given["name"] or "", "blocks": given["blocks"] or [], "length": length}
        case "release":
            return asked | {"name": given["name"] or ""}
        case _:
            return asked | {"block": next(iter(given["blocks"] or []), ""), "length": length}
