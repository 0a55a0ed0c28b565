"""Uploading rows in place of those of one source, to be read at once. Source: the design, "Visibility: replacing data".

The new rows may lie in several time chunks: they make one group, of a block for each.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from drystone import ulids
from drystone.block.chunks import chunk_at
from drystone.block.meta import Group, TimeChunk
from drystone.block.schema import Column, Schema
from drystone.engine.job import Job
from drystone.engine.record import keep_schema
from drystone.engine.upload import Origin, new_extension, upload_block
from drystone.errors import InputError, UsageError
from drystone.plan.model import Reupload
from drystone.rows import keys
from drystone.rows.arrow_schema import SOURCE_COLUMN, to_arrow
from drystone.rows.writer import Built, ChunkWriter

VERB = "repair.reupload"


def file_facts(path: Path) -> tuple[str, str, int]:
    """Return a file's absolute path, the SHA-256 of its content and its bytes; raise UsageError if there is none."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        return str(path.resolve()), digest, path.stat().st_size
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}.", "Give the file with the corrected rows.") from None


def configured_schema(job: Job) -> Schema:
    """Return the columns that the configuration gives the stream; raise UsageError where they are inferred."""
    columns = job.config.columns
    if columns == "infer":
        raise UsageError(f"the columns of stream {job.stream} are inferred.", "Use the job: Spark infers them again.")
    return Schema(columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()))


def read_rows(job: Job, path: Path) -> pa.Table:
    """Return the rows of a CSV, JSON-lines or Parquet file in the stream's columns and types.

    Parquet has every column; of the others those that the stream derives by Spark SQL cannot be made here. Raises
    UsageError for them, InputError for rows that do not fit.
    """
    schema = to_arrow(configured_schema(job))
    kind = "parquet" if path.suffix == ".parquet" else job.config.files.format
    derived = job.config.files.derive
    try:
        if kind == "parquet":
            table = pq.ParquetFile(path).read()
        elif derived:
            raise UsageError(f"stream {job.stream} derives {', '.join(derived)} with Spark SQL.", "Use the job.")
        elif kind == "csv":
            convert = pa.csv.ConvertOptions(column_types=schema, strings_can_be_null=True)
            table = pa.csv.read_csv(path, convert_options=convert)
        else:
            table = pa.json.read_json(path, parse_options=pa.json.ParseOptions(explicit_schema=schema))
        missing = [name for name in schema.names if name not in table.column_names]
        if missing:
            raise InputError(f"{path} has no column {', '.join(missing)}; it has {', '.join(table.column_names)}.")
        return table.select(schema.names).cast(schema)
    except pa.ArrowException as error:
        raise InputError(f"{path} does not fit the stream: {' '.join(str(error).split())}") from None


def upload_replacement(job: Job, action: Reupload, rows: pa.Table, schema: Schema) -> list[str]:
    """Upload a table of these columns as the replacement of `action.root`; return the new blocks' ULIDs.

    Without rows, what stays of the source is one empty block. Raises InputError for rows without a time, and what
    `upload_block` raises: then the group is incomplete, and changes nothing.
    """
    rows = rows.select([column.name for column in schema.columns]).cast(to_arrow(schema))
    fingerprint = keep_schema(job.bucket, job.stream, schema)
    parts = list(_by_chunk(job, rows))
    group = ulids.new(job.clock())
    found: list[str] = []
    for index, (start, part) in enumerate(parts):
        own = Group(id=group, size=len(parts), index=index) if len(parts) > 1 else None
        with tempfile.TemporaryDirectory(prefix="drystone-") as folder:
            built = _write(job, part, action.by, schema, Path(folder))
            origin = _origin(job, action, built, fingerprint, start, own)
            meta = upload_block(job.bucket, built, origin, job.config.times.upload_timeout, job.clock)
        found.append(meta.ulid)
    return found


def _origin(job: Job, action: Reupload, built: Built, fingerprint: str, start: int, group: Group | None) -> Origin:
    """Return what a block of the replacement says of itself. `start`: of its time chunk, in ms."""
    chunk = chunk_at(start, job.config.granularity.ingest)
    extension = new_extension(
        stream=job.stream,
        schema_fingerprint=fingerprint,
        time_chunk=TimeChunk(start=chunk.start, end=chunk.end, granularity=chunk.granularity),
        time_column=job.config.time_column,
        sort_key=job.config.sort_key,
        group=group,
        generation=job.config.generation,
        checksum=built.checksum,
        retires=action.retires,
        ignore_delay=True,
        operation=action.key,
        **job.coordination.stamp(),
    )
    low, high = built.time_range((chunk.start, chunk.end))
    return Origin(
        stream=job.stream,
        verb=VERB,
        labels=job.config.labels,
        extension=extension,
        sources=frozenset({action.by}),
        level=1,
        min_time=low,
        max_time=high,
    )


def _by_chunk(job: Job, rows: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of each time chunk, with its start in ms; one empty part where there are no rows."""
    time = rows.column(job.config.time_column)
    if time.null_count:
        raise InputError(f"{time.null_count} rows have no {job.config.time_column}.", "Nothing was uploaded.")
    if not rows.num_rows:
        yield chunk_at(job.clock(), job.config.granularity.ingest).start, rows
        return
    moments = pc.floor_temporal(time.cast(pa.timestamp("us", "UTC")), unit="millisecond")
    moments = moments.cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
    while rows.num_rows:
        chunk = chunk_at(pc.min(moments).as_py(), job.config.granularity.ingest)
        inside = pc.less(moments, chunk.end)
        yield chunk.start, rows.filter(inside)
        outside = pc.invert(inside)
        rows, moments = rows.filter(outside), moments.filter(outside)


def _write(job: Job, rows: pa.Table, source: str, schema: Schema, folder: Path) -> Built:
    own = pa.array([ulids.to_bytes(source)] * rows.num_rows, pa.binary())
    writer = ChunkWriter(
        folder,
        to_arrow(schema, with_source=True),
        job.config.sort_key,
        job.config.time_column,
        row_group_rows=job.config.compaction.row_group_rows,
    )
    writer.write(keys.sort_table(rows.append_column(SOURCE_COLUMN, own), job.config.sort_key))
    return writer.close()
