"""A stream's schema in Spark's types."""

from __future__ import annotations

from pyspark.sql.types import DataType, StructType

from drystone.block.schema import Schema

_SPARK = {
    "bool": "boolean",
    "int8": "tinyint",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "float32": "float",
    "float64": "double",
    "string": "string",
    "binary": "binary",
    "date": "date",
    "timestamp": "timestamp",
}


def spark_type(name: str) -> str:
    """Return the name that Spark SQL has for a configured type."""
    return _SPARK.get(name, name)


def ddl(columns: dict[str, str]) -> str:
    """Return a schema string for these columns and configured types."""
    return ", ".join(f"`{name.replace('`', '``')}` {spark_type(kind)}" for name, kind in columns.items())


def to_spark(schema: Schema) -> StructType:
    """Return the StructType of a schema. Needs a running session."""
    parsed = DataType.fromDDL(ddl({column.name: column.type for column in schema.columns}))
    assert isinstance(parsed, StructType)  # noqa: S101 - what a list of columns is
    return parsed
