"""The workflow `<stream>__retention`: what is older than the stream keeps it is hidden, then deleted.

Source: the design, "Airflow: DAGs", "Blocks: lifecycle verbs" (retain).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG

from drystone.airflow import params
from drystone.airflow.common import Stream, streams
from drystone.airflow.removal import removal
from drystone.airflow.step import author_of

DOC = """\
Takes rows away that are older than `retention` of the configuration keeps them. Runs daily where that is set.

1. **retain**: writes an expire edit, if a time chunk has become too old; from then on readers leave such rows out.
2. **mark → delete_delay → sweep**: blocks of which every row has expired are marked, and deleted after deleteDelay. A
   block that holds younger rows, too, is read with a filter until it is compacted.
3. **report**: what was done, as an object in the bucket and in the log.
"""


def dags() -> dict[str, DAG]:
    """Return the retention DAG of every stream, by id."""
    return {dag.dag_id: dag for dag in map(build, streams())}


def build(stream: Stream) -> DAG:
    """Return the retention DAG of one stream."""
    schedule = "@daily" if stream.config.retention.by_resolution() else None
    dag = stream.dag("retention", DOC, {"dry_run": params.dry_run()}, schedule=schedule, max_active_runs=1)
    with dag:
        removal(stream, stream.step("retain", "retain", request=retain_request))
    return dag


def retain_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request: retention itself is in the configuration."""
    return {"author": author_of(context)}
