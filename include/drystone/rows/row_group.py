"""What the index and meta.json say of one row group: computed from its rows, and checked on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone import ulids
from drystone.errors import InputError, InvariantError
from drystone.rows import columns, keys
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.keys import Key, KeyValue

_SECOND = 1_000
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Facts:
    """Rows, times (ms, half-open), first and last key, bounds of each sort column, and sources of one row group.

    `unknown`: how many of the rows have no time; the times are those of the others, None where there are none.
    """

    rows: int
    unknown: int
    min_time: int | None
    max_time: int | None
    first: Key
    last: Key
    mins: Key
    maxs: Key
    sources: frozenset[str]


def examine(batch: pa.RecordBatch, sort_key: Sequence[str], time_column: str) -> Facts:
    """Return the facts of a row group of at least one row.

    Raises InvariantError if its rows are not in the order of the sort key, InputError if its time is no time.
    """
    arrays = keys.sort_arrays(batch, sort_key)
    wrong = keys.descents(keys.digits(arrays, batch.num_rows))
    if len(wrong):
        msg = f"row {wrong[0]} of a row group is out of the order of {', '.join(sort_key)}."
        raise InvariantError(msg, "Nothing was uploaded.")
    bounds = [_bounds(array) for array in arrays]
    time = batch.column(time_column)
    return Facts(
        batch.num_rows,
        time.null_count,
        *_times(time, time_column),
        keys.key_at(arrays, 0),
        keys.key_at(arrays, batch.num_rows - 1),
        tuple(low for low, _ in bounds),
        tuple(high for _, high in bounds),
        _sources(batch),
    )


def _times(array: pa.Array, name: str) -> tuple[int | None, int | None]:
    """Return [first, last) in ms, of the rows that have a time."""
    kind = array.type
    if not (pa.types.is_date32(kind) or pa.types.is_timestamp(kind)):
        raise InputError(f"time column {name} is {kind}.", "It must be a timestamp or a date.")
    if array.null_count == len(array):
        return None, None
    # Under a null lies any value, often 0, which would be 1970.
    ticks = columns.values(array.drop_null() if array.null_count else array)
    low, high = int(ticks.min()), int(ticks.max())
    if pa.types.is_date32(kind):
        return low * _DAY_MS, high * _DAY_MS + 1
    if kind.unit == "s":
        return low * _SECOND, high * _SECOND + 1
    step = {"ms": 1, "us": 1_000, "ns": 1_000_000}[kind.unit]
    return low // step, high // step + 1


def _bounds(array: pa.Array) -> tuple[KeyValue, KeyValue]:
    """Return the least and the greatest value in the order of keys: NaN after numbers, null after all."""
    if array.null_count == len(array):
        return None, None
    known = array.drop_null()
    if pa.types.is_dictionary(known.type):
        used = np.flatnonzero(np.bincount(columns.codes(known), minlength=1))
        known = known.dictionary.take(pa.array(used))
    has_nan = bool(pa.types.is_floating(known.type) and np.isnan(columns.values(known)).any())
    found = pc.min_max(known.filter(pc.invert(pc.is_nan(known))) if has_nan else known)
    low, high = keys.plain_value(found["min"]), keys.plain_value(found["max"])
    if has_nan:
        low, high = float("nan") if low is None else low, float("nan")
    return low, None if array.null_count else high


def _sources(batch: pa.RecordBatch) -> frozenset[str]:
    if SOURCE_COLUMN not in batch.schema.names:
        return frozenset()
    found = pc.unique(batch.column(SOURCE_COLUMN))
    if pa.types.is_dictionary(found.type):
        found = found.cast(found.type.value_type)
    raw = found.to_pylist()
    if None in raw:
        raise InvariantError(f"a row has no {SOURCE_COLUMN}.", "Nothing was uploaded.")
    return frozenset(map(_ulid, raw))


# Row after row group has the same sources.
_ulid = lru_cache(maxsize=1 << 16)(ulids.from_bytes)
