"""The workflow `<stream>__replay` of a stream that keeps messages from Kafka: a form, and they are sent once more.

Source: the design, "Airflow: DAGs", "Ingest: replay".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from airflow.sdk import DAG, Param

from drystone.airflow import assets, params
from drystone.airflow.common import Stream, streams
from drystone.config.ingest import KafkaIngest

DOC = """\
Sends messages of a backup, or dead letters, into another topic: **replay → report**. Each goes to the partition that it
came from, in order, with key, value, headers and time, all in one transaction. Start it with *Dry run* first: the log
of **replay** tells how many messages there are.

However often its task is tried, or cleared, a run sends them once. To send them another time, start another run.
"""


def dags() -> dict[str, DAG]:
    """Return the replay DAG of every backup stream and every stream of some stream's dead letters, by id.

    Dead letters of a stream that is not in the file any more have none: nothing says which Kafka they came from.
    """
    found = list(streams())
    kafka = {each.name: each.config.ingest for each in found if isinstance(each.config.ingest, KafkaIngest)}
    kept = {name for name, ingest in kafka.items() if ingest.group == "backup"}
    kept |= {ingest.dead_letters for ingest in kafka.values() if ingest.dead_letters is not None}
    return {dag.dag_id: dag for dag in (build(each) for each in found if each.name in kept)}


def form() -> dict[str, Param]:
    """Return the fields of the form."""
    return {
        "offsets": params.offsets(needed=True),
        "to": Param(type="string", minLength=1, title="To", description="The topic to send them to; it must be there."),
        "again": params.flag("Again", "Also into a topic that is ingested: they are ingested twice.", default=False),
        "dry_run": params.dry_run(default=True),
    }


def build(stream: Stream) -> DAG:
    """Return the replay DAG of one stream."""
    dag = stream.dag("replay", DOC, form(), schedule=None, max_active_runs=1)
    with dag:
        replay = stream.spark("replay", "replay", request=replay_request)
        report = stream.report(assets.replayed(stream.name))
        replay >> report
    return dag


def replay_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request of a replay, as the form asks for it."""
    return {name: context["params"][name] for name in ("offsets", "to", "again")}
