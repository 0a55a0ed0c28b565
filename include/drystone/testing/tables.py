"""Hypothesis strategies for rows as blocks hold them, and for the many ways in which Arrow can hold the same rows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pyarrow as pa
from hypothesis import strategies as st

from drystone import ulids
from drystone.rows.arrow_schema import SOURCE_COLUMN

SCHEMA = pa.schema(
    [
        pa.field("time", pa.timestamp("us", "UTC")),
        pa.field("city", pa.string()),
        pa.field("count", pa.int32()),
        pa.field("ratio", pa.float64()),
        pa.field("flag", pa.bool_()),
        pa.field("day", pa.date32()),
        pa.field(SOURCE_COLUMN, pa.binary()),
    ]
)
"""A column of each kind that rows can be sorted by."""

SOURCES = tuple(ulids.derive(1_700_000_000_000 + number, f"source {number}") for number in range(4))
"""The sources that the rows of `tables` come from."""

_CITIES = st.sampled_from(["", "a", "aa", "b", "é", "z", "ö", "\U0001f600", "\uffff", "New York", "a" * 40])
_VALUES: dict[str, st.SearchStrategy[object]] = {
    "time": st.none() | st.integers(0, 5).map(lambda second: second * 1_000_000) | st.integers(-(2**40), 2**45),
    "city": st.none() | _CITIES | st.text(max_size=12),
    "count": st.none() | st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1),
    "ratio": st.none() | st.sampled_from([0.0, -0.0, 1.5, -1.5, float("inf")]) | st.floats(),
    "flag": st.none() | st.booleans(),
    "day": st.none() | st.integers(-1000, 1000),
    SOURCE_COLUMN: st.sampled_from(SOURCES).map(ulids.to_bytes),
}


def tables(min_rows: int = 0, max_rows: int = 40) -> st.SearchStrategy[pa.Table]:
    """Generate tables of `SCHEMA`: few different values, so that keys repeat, and the difficult ones among them."""
    row = st.fixed_dictionaries(_VALUES)
    return st.lists(row, min_size=min_rows, max_size=max_rows).map(_table)


def _table(rows: Sequence[dict[str, object]]) -> pa.Table:
    arrays = []
    for field in SCHEMA:
        values = [row[field.name] for row in rows]
        if pa.types.is_timestamp(field.type):
            arrays.append(pa.array(values, pa.int64()).cast(field.type))
        elif pa.types.is_date32(field.type):
            arrays.append(pa.array(values, pa.int32()).cast(field.type))
        else:
            arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


@st.composite
def arranged(draw: st.DrawFn, table: pa.Table) -> pa.Table:
    """Generate the same rows in the same order, in other chunks, as slices of larger arrays, some coded."""
    cuts = sorted(draw(st.lists(st.integers(0, table.num_rows), max_size=4)))
    bounds = [0, *cuts, table.num_rows]
    coded = draw(st.sets(st.sampled_from(["city", SOURCE_COLUMN])))
    padding = draw(st.integers(0, 9)) if table.num_rows else 0
    # Rows before and after the slice: offsets that are no multiples of eight, and dictionaries with unused values.
    padded = pa.concat_tables([table.slice(0, padding), table, table.slice(0, padding)])
    arrays = {}
    for name in table.column_names:
        column = padded.column(name).combine_chunks()
        whole = column.dictionary_encode() if name in coded else column
        whole = whole.slice(min(padding, table.num_rows), table.num_rows)
        parts = [whole.slice(low, high - low) for low, high in pairwise(bounds)]
        arrays[name] = pa.chunked_array(parts, whole.type)
    return pa.table(arrays)


@st.composite
def cut(draw: st.DrawFn, table: pa.Table, pieces: int) -> list[pa.Table]:
    """Generate a way to deal the rows out to `pieces` tables, in which they keep their order."""
    owners = draw(st.lists(st.integers(0, pieces - 1), min_size=table.num_rows, max_size=table.num_rows))
    return [
        table.take(pa.array([row for row, to in enumerate(owners) if to == piece], pa.int64()))
        for piece in range(pieces)
    ]
