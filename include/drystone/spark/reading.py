"""Files to rows, by Spark's own readers: columns by their names, in whichever order a file has them."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Mapping, Sequence
from functools import reduce
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses
from pyspark.sql.types import DataType, DoubleType, IntegerType, LongType, StringType, StructType

from drystone.config.ingest import FilesIngest
from drystone.config.model import StreamConfig
from drystone.errors import InputError
from drystone.spark.paths import plain_path
from drystone.spark.types import ddl, spark_type

_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "csv": {"header": "true", "enforceSchema": "false", "mode": "FAILFAST"},
    "json": {"mode": "FAILFAST"},
    "parquet": {"mergeSchema": "true"},
}
_NUMBERS: Sequence[DataType] = (IntegerType(), LongType(), DoubleType())
"""Types that Spark infers of numbers, each of which takes what the ones before it take."""
_LONGEST_HEADER = 1 << 20


def load_files(spark: SparkSession, config: StreamConfig, paths: Sequence[Path]) -> DataFrame:
    """Return the files' rows and paths (`__path`), the file's own columns in their configured types, or as inferred.

    CSV is read as text and cast by name; one reader takes all files with the same header, for Spark has one order of
    columns for each. Raises InputError for columns that are missing, or that the headers do not agree about.
    """
    rules = config.files
    own: dict[str, str] = {}
    if config.columns != "infer":
        own = {name: kind for name, kind in config.columns.items() if name not in rules.derive}
    groups = _by_header(rules, paths)
    frames = [_read(spark, rules, own, group) for group in groups] if own else _inferred(spark, rules, groups)
    for frame, group in zip(frames, groups, strict=True):
        missing = [name for name in own if name not in frame.columns]
        if missing:
            msg = f"{group[0]}: the input has no column {', '.join(missing)}; it has {', '.join(frame.columns)}."
            raise InputError(msg)
    columns = [F.col(f"`{name}`").cast(spark_type(kind)).alias(name) for name, kind in own.items()] or [F.col("*")]
    selected = [frame.select(*columns, F.col("_metadata.file_path").alias("__path")) for frame in frames]
    return reduce(DataFrame.unionByName, selected)


def _by_header(rules: FilesIngest, paths: Sequence[Path]) -> list[list[Path]]:
    """Return the files in groups that one reader can take together."""
    options = {name.lower(): value.lower() for name, value in _options(rules).items()}
    if rules.format != "csv" or options["header"] != "true":
        return [list(paths)]
    groups: dict[bytes, list[Path]] = {}
    for path in paths:
        groups.setdefault(_first_line(path), []).append(path)
    return list(groups.values())


def _first_line(path: Path) -> bytes:
    """Return the bytes of a CSV file's first line. Where they do not tell the header, Spark compares the headers."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            return file.readline(_LONGEST_HEADER).rstrip(b"\r\n")
    except (OSError, EOFError, zlib.error):
        return b""  # Spark reads it next, and says what is wrong with it.


def _options(rules: FilesIngest) -> dict[str, str]:
    return {**_OPTIONS.get(rules.format, {}), **rules.options}


def _read(
    spark: SparkSession,
    rules: FilesIngest,
    own: dict[str, str],
    paths: Sequence[Path],
    schema: StructType | None = None,
) -> DataFrame:
    reader = spark.read.format(rules.format).options(**_options(rules))
    if own and rules.format == "json":
        reader = reader.schema(ddl(own))
    elif schema is not None:
        reader = reader.schema(schema)
    elif not own and rules.format != "parquet":
        reader = reader.option("inferSchema", "true")
    return reader.load([plain_path(str(path.resolve())) for path in paths])


def _inferred(spark: SparkSession, rules: FilesIngest, groups: Sequence[Sequence[Path]]) -> list[DataFrame]:
    """Return the rows of groups of files in types that are inferred from all of them together."""
    frames = [_read(spark, rules, {}, group) for group in groups]
    if len(frames) == 1:
        return frames
    kinds: dict[str, DataType] = {}
    for frame, group in zip(frames, groups, strict=True):
        if {name.lower() for name in frame.columns} != {name.lower() for name in frames[0].columns}:
            one, other = ", ".join(frames[0].columns), ", ".join(frame.columns)
            raise InputError(f"{groups[0][0]} has columns {one}; {group[0]} has {other}.", "Give the stream a schema.")
        for field in frame.schema.fields:
            name = field.name.lower()
            kinds[name] = _common(kinds.get(name, field.dataType), field.dataType)
    wanted = []
    for frame in frames:
        schema = StructType()
        for field in frame.schema.fields:
            schema.add(field.name, kinds[field.name.lower()])
        wanted.append(schema)
    return [_read(spark, rules, {}, group, schema) for group, schema in zip(groups, wanted, strict=True)]


def _common(one: DataType, other: DataType) -> DataType:
    """Return the type that takes the values of both, as they stand in the files: text, if nothing else does."""
    if one == other:
        return one
    if one in _NUMBERS and other in _NUMBERS:
        return _NUMBERS[max(_NUMBERS.index(one), _NUMBERS.index(other))]
    return StringType()
