"""Reading a stream as a Spark DataFrame, by Spark's own Parquet reader."""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses
from pyspark.sql.types import StructType

from drystone import clock, ulids
from drystone.block import keys
from drystone.block.guards import Pin
from drystone.bucket import open_bucket
from drystone.bucket.protocol import Bucket
from drystone.errors import UsageError
from drystone.reader.scanning import Moment, to_ms
from drystone.reader.view import BlockRead, View, block_reads, look, schema_of
from drystone.rows import sql
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.spark import s3a
from drystone.spark.paths import plain_path
from drystone.spark.types import to_spark

_PIN_MS = 24 * 3_600_000
_BLOCK = r"([0-9A-HJKMNP-TV-Z]{26})/chunks/[^/]*$"


def read(
    spark: SparkSession,
    bucket: Bucket | str,
    stream: str,
    start: Moment = None,
    end: Moment = None,
    columns: Sequence[str] | None = None,
    *,
    allow_incomplete: bool = False,
    pin: bool = False,
    generation: int | None = None,
) -> DataFrame:
    """Return every row of the stream with start <= time < end exactly once, as a lazy DataFrame.

    What is read is fixed now; the DataFrame stays exact for `read_timeout` from now, or for a day with `pin=True`.
    `columns`: by default all of the stream's. `generation`: whose rows, by default the newest's. Spark skips blocks out
    of range and, by Parquet's statistics, row groups. Raises UsageError (no such stream, column or generation; Spark
    has no S3A for a bucket in S3), DamagedStreamError (rows that should be there cannot be read, and
    `allow_incomplete` is not set).
    """
    opened = open_bucket(bucket) if isinstance(bucket, str) else bucket
    low, high = to_ms(start), to_ms(end)
    if pin:
        _pin(opened, stream)
    view = look(opened, stream, generation=generation)
    schema = to_spark(schema_of(view))
    known = schema.fieldNames()
    unknown = [name for name in columns or () if name not in known]
    if unknown and known:
        msg = f"stream {stream} has no column {', '.join(unknown)}."
        raise UsageError(msg, f"It has {', '.join(known)}.")
    reads = block_reads(view, low, high, allow_incomplete=allow_incomplete)
    if not reads:
        return spark.createDataFrame([], schema).select(*([name for name in columns or known if name in known]))
    frame = _filtered(spark, view, reads, schema)
    for condition in sql.between(view.record.time_column, low, high, "spark"):
        frame = frame.where(condition)
    return frame.select(*(columns or known))


def _filtered(spark: SparkSession, view: View, reads: list[BlockRead], schema: StructType) -> DataFrame:
    """Return the rows of all files less what is excluded: one scan and one small join, however many blocks overlap."""
    paths = [plain_path(view.bucket.uri(file.key)) for read in reads for file in read.files]
    with_source = StructType(list(schema.fields)).add(SOURCE_COLUMN, "binary")
    reader = spark.read.schema(with_source).options(**s3a.options(view.bucket.url))
    try:
        frame = reader.parquet(*paths)
    except (PySparkException, Py4JError) as error:
        if (better := s3a.explain(error)) is not None:
            raise better from error
        raise
    excluded = [(read.ulid, bytearray(ulids.to_bytes(source))) for read in reads for source in sorted(read.excluded)]
    if excluded:
        gone = spark.createDataFrame(excluded, "__of string, __gone binary")
        at = (F.col("__block") == F.col("__of")) & (F.col(SOURCE_COLUMN) == F.col("__gone"))
        frame = frame.withColumn("__block", _block()).join(F.broadcast(gone), at, "left_anti")
    for condition in _edit_conditions(view, reads, schema):
        frame = frame.where(condition)
    return frame


def _edit_conditions(view: View, reads: list[BlockRead], schema: StructType) -> list[Column]:
    """Return for each pending edit, and each set of sources that it applies to, the condition that keeps a row."""
    blocks: dict[str, list[str]] = {}
    for read in reads:
        for edit in read.edits:
            known = [*schema.fieldNames(), SOURCE_COLUMN]
            condition = sql.kept_by(edit, view.record.time_column, known, "spark")
            blocks.setdefault(condition, []).append(read.ulid)
    whole = {read.ulid for read in reads}
    return [
        F.expr(condition) if set(names) == whole else ~_block().isin(names) | F.expr(condition)
        for condition, names in blocks.items()
    ]


def _block() -> Column:
    return F.regexp_extract(F.col("_metadata.file_path"), _BLOCK, 1)


def _pin(bucket: Bucket, stream: str) -> None:
    now = clock.system()
    pin = Pin(owner="read", reason="DataFrame", created=now, expires=now + _PIN_MS)
    bucket.create(f"{keys.pins(stream)}{ulids.new(now)}.json", pin.to_json())
