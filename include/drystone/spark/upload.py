"""The upload job: files to blocks, one block per source, read by Spark.

Spark reads and shuffles the rows to (file, time chunk), sorted; each task then writes its blocks one by one, in
bounded memory. Because a shuffle ends before its readers begin, every row of every file has been parsed and checked
before the first block is uploaded.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from drystone.block.folder import Folder
from drystone.block.schema import Schema
from drystone.config.ingest import KafkaIngest
from drystone.config.model import StreamConfig
from drystone.engine.outcome import Outcome
from drystone.engine.schemas import fitting_schema, known_schema
from drystone.errors import InputError, UsageError
from drystone.ingest import files as ingest
from drystone.ingest.blocks import BuiltSource, local_path, prepared
from drystone.ingest.files import PlannedFile
from drystone.jobs import UploadRequest
from drystone.rows.arrow_schema import from_arrow, settle
from drystone.spark import kafka
from drystone.spark.context import JobContext
from drystone.spark.reading import load_files
from drystone.spark.types import spark_type
from drystone.verbs import upload as verb


def run(job: JobContext, request: UploadRequest) -> Outcome:
    """Plan, upload and commit what the request names, files or messages; what was done before is left as it is."""
    if isinstance(job.config.ingest, KafkaIngest):
        return kafka.run(job, request)
    found = _find(job, request)
    if job.dry_run:
        return _dry_run(found)
    return verb.run(job, found, job.loaded.path.parent, lambda todo, folders: _upload(job, todo, folders))


def _find(job: JobContext, request: UploadRequest) -> list[Path]:
    pattern = request.path or job.config.files.path
    found = ingest.find_files(pattern, request.moments, job.loaded.path.parent)
    if not found and request.path is not None:
        raise UsageError(f"no file matches {pattern}.", "Check the path; it is relative to the configuration file.")
    return found


def _dry_run(found: list[Path]) -> Outcome:
    report = [f"Would ingest {len(found)} files:", *(f"* {path} ({path.stat().st_size:,} bytes)" for path in found)]
    return Outcome(summary={"files": len(found)}, report=report)


def _upload(job: JobContext, todo: Sequence[PlannedFile], folders: Collection[Folder]) -> list[BuiltSource]:
    frame, schema = _typed(load_files(job.spark, job.config, _locations(todo)), job.config, _known(job, folders))
    builder = verb.block_builder(job, schema, todo, folders)
    empty: list[BuiltSource] = []
    if any(file.plan.listed for file in todo):
        builder = prepared(builder, _chunk_starts(frame))
        empty = builder.upload_empty()
    order = ["__path", "__chunk", *job.config.sort_key]
    tasks = max(job.workers.parallelism, len(todo))
    shuffled = frame.repartition(tasks, "__path", "__chunk")
    ordered = shuffled.sortWithinPartitions(*(F.col(name).asc_nulls_last() for name in order))
    results = ordered.mapInArrow(builder, "result string").collect()
    return [*empty, *(BuiltSource.model_validate_json(row["result"]) for row in results)]


def _chunk_starts(frame: DataFrame) -> dict[str, set[int]]:
    """Return by local path in which time chunks (starts, ms) a file's rows lie."""
    found: dict[str, set[int]] = {}
    for row in frame.select("__path", "__chunk").distinct().collect():
        found.setdefault(local_path(row["__path"]), set()).add(row["__chunk"])
    return found


def read_files(job: JobContext, paths: Sequence[Path]) -> tuple[DataFrame, Schema]:
    """Return the rows of files as an ingest would read them, in the stream's types, and their schema.

    Raises InputError and StreamChangeError as an ingest does.
    """
    folders = job.tracker.observe(job.clock()).folders.values()
    return _typed(load_files(job.spark, job.config, paths), job.config, _known(job, folders))


def _locations(files: Sequence[PlannedFile]) -> list[Path]:
    return [file.location for file in files]


def _typed(frame: DataFrame, config: StreamConfig, known: Schema) -> tuple[DataFrame, Schema]:
    """Return the rows with derived columns, in the stream's types and order, each with its chunk's start in ms.

    And their schema: as configured, or as inferred, where what is `known` of the stream's blocks decides. A row without
    a time stops the job here, before anything is uploaded.
    """
    for name, expression in config.files.derive.items():
        frame = frame.withColumn(name, F.expr(expression))
    missing = [name for name in (*config.sort_key, config.time_column) if name not in frame.columns]
    if missing:
        raise InputError(f"the input has no column {', '.join(missing)}; it has {', '.join(frame.columns)}.")
    schema = _schema(config, frame.drop("__path"), known)
    typed = (F.col(f"`{each.name}`").cast(spark_type(each.type)).alias(each.name) for each in schema.columns)
    frame = frame.select(*typed, "__path")
    return frame.withColumn("__chunk", _chunk_start(config.time_column, config.granularity.ingest)), schema


def _chunk_start(time_column: str, granularity: str) -> Column:
    time = F.col(f"`{time_column}`").cast("timestamp")
    nothing = F.lit(f" has no {time_column}. Nothing was uploaded.")
    complaint = F.concat(F.lit("drystone: a row of "), F.col("__path"), nothing)
    return F.when(time.isNull(), F.raise_error(complaint).cast("bigint")).otherwise(
        F.unix_millis(F.date_trunc(granularity, time))
    )


def _schema(config: StreamConfig, frame: DataFrame, known: Schema) -> Schema:
    """Return the schema that the blocks keep; raise StreamChangeError if readers could not put it beside the others."""
    if config.columns == "infer":
        found = settle(known, from_arrow(frame.limit(0).toArrow().schema))
        if {each.name: each.type for each in found.columns}[config.time_column] not in {"timestamp", "date"}:
            msg = f"the time column {config.time_column} was not inferred as a time."
            raise InputError(msg, "Give the stream a schema, or make a timestamp of it with `derive`.")
        return found
    return fitting_schema(config, known)


def _known(job: JobContext, folders: Iterable[Folder]) -> Schema:
    return known_schema(job.bucket, job.stream, folders, job.config.generation)
