"""Schemas between their three spellings: the configuration's names, Arrow's types, and several unified into one."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa

from drystone.block.schema import Column, Schema
from drystone.errors import InputError

SOURCE_COLUMN = "__source"
"""Names the source of each row, 16 bytes; hidden from users."""

_ARROW = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_NAMES = {arrow: name for name, arrow in _ARROW.items()}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_WIDER = (("int8", "int16", "int32", "int64"), ("float32", "float64"))


def arrow_type(name: str) -> pa.DataType:
    """Return the Arrow type of a configured type's name."""
    if found := _DECIMAL.fullmatch(name):
        return pa.decimal128(int(found[1]), int(found[2]))
    return _ARROW[name]


def to_arrow(schema: Schema, *, with_source: bool = False) -> pa.Schema:
    """Return the Arrow schema, with `__source` as its last column if asked for."""
    fields = [pa.field(column.name, arrow_type(column.type)) for column in schema.columns]
    if with_source:
        fields.append(pa.field(SOURCE_COLUMN, pa.binary()))
    return pa.schema(fields)


def from_arrow(schema: pa.Schema) -> Schema:
    """Return the schema of an Arrow schema; raise InputError for a type that blocks do not keep."""
    columns = []
    for field in schema:
        if field.name == SOURCE_COLUMN:
            continue
        kind = field.type
        if pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", "UTC")
        elif pa.types.is_large_string(kind):
            kind = pa.string()
        elif pa.types.is_large_binary(kind):
            kind = pa.binary()
        name = f"decimal({kind.precision}, {kind.scale})" if pa.types.is_decimal128(kind) else _NAMES.get(kind)
        if name is None:
            known = ", ".join(_ARROW)
            raise InputError(f"column {field.name} has type {field.type}.", f"Allowed: {known}, decimal(p, s).")
        columns.append(Column(name=field.name, type=name))
    return Schema(columns=tuple(columns))


def unify(schemas: Iterable[Schema]) -> Schema:
    """Return the schema that holds rows of all of these: columns by name, in order of appearance, numbers widened.

    Raises InputError, naming the column and both types, where one column has types that do not widen into each other.
    """
    columns: dict[str, str] = {}
    for schema in schemas:
        for column in schema.columns:
            known = columns.get(column.name)
            columns[column.name] = column.type if known is None else _wider(column.name, known, column.type)
    return Schema(columns=tuple(Column(name=name, type=kind) for name, kind in columns.items()))


def settle(known: Schema, found: Schema) -> Schema:
    """Return the columns of `found` in types that fit the blocks that are there: widened, or else as `known`."""
    types = {column.name: column.type for column in known.columns}
    columns = []
    for column in found.columns:
        there = types.get(column.name, column.type)
        family = next((family for family in _WIDER if there in family and column.type in family), (there,))
        kind = max(there, column.type, key=family.index) if len(family) > 1 else there
        columns.append(Column(name=column.name, type=kind))
    return Schema(columns=tuple(columns))


def _wider(column: str, one: str, other: str) -> str:
    if one == other:
        return one
    for family in _WIDER:
        if one in family and other in family:
            return max(one, other, key=family.index)
    raise InputError(f"column {column} is {one} in some blocks and {other} in others.", "They cannot be read as one.")
