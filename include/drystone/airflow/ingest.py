"""The workflow `<stream>__ingest`: files or messages in, blocks out, ready to be read.

Source: the design, "Airflow: DAGs", "Ingest".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import DAG, CronDataIntervalTimetable, Param

from drystone.airflow import assets, params
from drystone.airflow.common import Stream, streams
from drystone.airflow.dead_letters import DeadLettersOperator
from drystone.airflow.sensors import BlocksReadySensor, ready_timeout
from drystone.config.ingest import FilesIngest, KafkaIngest

DOC = """\
Reads files into blocks, exactly once.

1. **upload**: a Spark job plans the files (create-only, so that a second run names the same sources), uploads one block
   per file and time chunk, and commits the plan. What is there already is left out.
2. **wait_until_ready**: waits, without a worker slot, until the new blocks are whole and past syncDelay.
3. **publish**: writes the run's report, whatever became of the rest, and tells other workflows what is new.

Several runs may go on at once: they know nothing of each other. Past intervals: `airflow backfill create`.
"""


KAFKA_DOC = """\
Reads Kafka into blocks: each committed message exactly once.

1. **upload**: a Spark job finds the topics and their partitions, finishes what an earlier run began, plans for each
   partition what is due (create-only, so that a second run names the same sources), uploads, and commits the plans.
2. **wait_until_ready**: waits, without a worker slot, until the new blocks are whole and past syncDelay.
3. **publish**: writes the run's report, whatever became of the rest, and tells other workflows what is new.

Dead letters are blocks of a stream of their own: **wait_for_dead_letters** and **publish_dead_letters** do the same for
it, if there are any.

A partition is due when enough bytes wait or the oldest message is old enough, or by *Upload now*. If Kafka has deleted
messages before they were uploaded, the run says which, and fails until *Accept lost messages* is given once.
"""


def dags() -> dict[str, DAG]:
    """Return the ingest DAG of every stream, by id: dead letters come with the stream that names theirs."""
    return {dag.dag_id: dag for dag in map(build, streams()) if dag is not None}


def build(stream: Stream) -> DAG | None:
    """Return the ingest DAG of one stream, None for dead letters."""
    match stream.config.ingest:
        case FilesIngest() as files:
            schedule = CronDataIntervalTimetable(files.schedule, timezone="UTC") if files.schedule else None
            dag = _dag(stream, DOC, {"path": params.path()}, files.start_date, schedule, max_active_runs=16)
            return _filled(dag, stream, upload_request)
        case KafkaIngest() as kafka:
            dag = _dag(stream, KAFKA_DOC, _kafka_form(), kafka.start_date, kafka.schedule, max_active_runs=1)
            return _with_dead_letters(_filled(dag, stream, kafka_request), stream, kafka)
        case _:
            return None


def _dag(stream: Stream, doc: str, form: Mapping[str, Param], start: str, schedule: Any, **kwargs: Any) -> DAG:
    form = {**form, "dry_run": params.dry_run()}
    start_date = datetime.fromisoformat(start).replace(tzinfo=UTC)
    return stream.dag("ingest", doc, form, schedule=schedule, start_date=start_date, **kwargs)


def _kafka_form() -> dict[str, Param]:
    force = "Uploads whatever is waiting, however little and young it is."
    gap = "Records which messages Kafka deleted before they were uploaded, also with a whole topic, and goes on."
    return {
        "force": params.flag("Upload now", force, default=False),
        "accept_gap": params.flag("Accept lost messages", gap, default=False),
    }


def _filled(dag: DAG, stream: Stream, request: Callable[..., dict[str, Any]]) -> DAG:
    with dag:
        upload = stream.spark("upload", "upload", request=request)
        ready = BlocksReadySensor(
            task_id="wait_until_ready", results=upload.output, timeout=ready_timeout(stream.times), **stream.where
        )
        publish = stream.report(assets.ingested(stream.name), task_id="publish")
        upload >> ready >> publish
    return dag


def _with_dead_letters(dag: DAG, stream: Stream, kafka: KafkaIngest) -> DAG:
    """Return the DAG with what concerns the stream of its dead letters, which has no ingest of its own."""
    if kafka.dead_letters is None:
        return dag
    dead = Stream(kafka.dead_letters, stream.loaded)
    results = dag.get_task("upload").output
    with dag:
        ready = BlocksReadySensor(
            task_id="wait_for_dead_letters", results=results, timeout=ready_timeout(dead.times), **dead.where
        )
        tell = DeadLettersOperator(
            task_id="publish_dead_letters", results=results, asset=assets.ingested(dead.name), **dead.where
        )
        ready >> tell >> dag.get_task("publish")
    return dag


def kafka_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request of an upload from Kafka: what the form says."""
    return {name: context["params"][name] for name in ("force", "accept_gap")}


def upload_request(context: Mapping[str, Any], **_: object) -> dict[str, Any]:
    """Return the request of an upload: the run's data interval, if it has one, and the form's path.

    A run that somebody starts by hand has no interval, or an empty one: then the path must not need one.
    """
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    interval = (start.isoformat(), end.isoformat()) if start and end and start < end else None
    return {"interval": interval, "path": context["params"]["path"]}
