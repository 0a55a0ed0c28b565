"""Sort keys: the one order of rows that blocks, merges, splits and indexes share.

Rows are ordered by the columns of the sort key, each ascending: numbers by value, strings by their UTF-8 bytes (that
is, by code points), false before true; a float's NaN comes after all numbers, a null after everything. -0.0 equals 0.0.
That is also Arrow's own order, with nulls at the end. Rows with equal keys have no order among themselves.

Outside of Arrow a key is a tuple of plain values that survive JSON: timestamps are int microseconds since the epoch,
dates int days, bools 0 and 1, null is None. A tuple may be shorter than the sort key: then it is a prefix.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.engine import columns
from drystone.engine.columns import I64, U64
from drystone.errors import InputError

KeyValue: TypeAlias = int | float | str | None
Key: TypeAlias = tuple[KeyValue, ...]
Rank: TypeAlias = tuple[tuple[int, int | float | str], ...]

_ORDINARY, _NAN, _NULL = 0, 1, 2
_TOP_BIT = np.uint64(1 << 63)
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_STEPS = (1_000_000, 1_000)
"""Timestamps are often whole seconds or milliseconds: such keys are shorter, and one sort of 64 bits orders them."""
_WORD = 64


def check_sortable(name: str, kind: pa.DataType) -> None:
    """Raise InputError if rows cannot be sorted by a column of this type."""
    plain = columns.plain_type(kind)
    if pa.types.is_timestamp(plain) and plain.unit == "ns":
        raise InputError(f"sort key: column {name} counts nanoseconds.", "Times in blocks are microseconds.")
    fixed = columns.is_fixed(plain) and not pa.types.is_date64(plain)
    if not (fixed or pa.types.is_boolean(plain) or pa.types.is_string(plain) or pa.types.is_large_string(plain)):
        raise InputError(f"sort key: rows cannot be sorted by column {name} of type {plain}.")


def rank(key: Key) -> Rank:
    """Return what Python compares in the order of keys."""
    return tuple([_rank(value) for value in key])


def value_at(array: pa.Array, row: int) -> KeyValue:
    """Return one value as keys have it."""
    scalar = array[row]
    if not scalar.is_valid:
        return None
    return plain_value(scalar)


def plain_value(scalar: pa.Scalar) -> KeyValue:
    """Return a scalar of a sortable type as keys have it."""
    if pa.types.is_dictionary(scalar.type):
        scalar = scalar.value
    if not scalar.is_valid:
        return None
    if pa.types.is_timestamp(scalar.type):
        return int(scalar.value) * _MICROSECONDS[scalar.type.unit]
    if pa.types.is_date32(scalar.type):
        return int(scalar.value)
    found = scalar.as_py()
    return int(found) if isinstance(found, bool) else found


def key_at(arrays: Sequence[pa.Array], row: int) -> Key:
    """Return the key of one row, from the arrays of the sort columns."""
    return tuple(value_at(array, row) for array in arrays)


def sort_arrays(data: pa.RecordBatch | pa.Table, sort_key: Sequence[str]) -> list[pa.Array]:
    """Return the sort columns as one array each; raise InputError if one is missing or cannot be sorted by."""
    found = []
    for name in sort_key:
        if name not in data.schema.names:
            raise InputError(f"sort key: there is no column {name}.", f"There are {', '.join(data.schema.names)}.")
        check_sortable(name, data.schema.field(name).type)
        found.append(columns.whole(data.column(name)))
    return found


def sort_table(table: pa.Table, sort_key: Sequence[str]) -> pa.Table:
    """Return the table in the order of its sort key; rows with equal keys keep their order."""
    order = ordering(digits(sort_arrays(table, sort_key), table.num_rows), table.num_rows)
    return table.take(pa.array(order))


def digits(arrays: Sequence[pa.Array], rows: int) -> list[U64]:
    """Return the keys as unsigned numbers: rows compare like their tuples of digits, the first counting most.

    Each digit leaves enough of its 64 bits free for a row number beside it. Digits of different calls do not compare.
    """
    width = _WORD - _bits(rows)
    found: list[U64] = []
    current, used = np.zeros(rows, np.uint64), 0
    encoded = [part for array in arrays for part in _encode(array)]
    for codes, size in reversed(encoded):
        rest, left = codes, size
        while left:
            part = min(left, width - used)
            current |= (rest & _low_bits(part)) << np.uint64(used) if part < left else rest << np.uint64(used)
            rest, left, used = rest >> np.uint64(part), left - part, used + part
            if used == width:
                found.append(current)
                current, used = np.zeros(rows, np.uint64), 0
    if used or not found:
        found.append(current)
    return found[::-1]


def ordering(keys: Sequence[U64], rows: int) -> I64:
    """Return the row numbers in the order of their keys, equal keys by row number. `keys`: as `digits` returns them."""
    shift = np.uint64(_bits(rows))
    numbers = np.arange(rows, dtype=np.uint64)
    order = numbers.view(np.int64)
    for number, digit in enumerate(reversed(keys)):
        packed = (digit if number == 0 else digit.take(order)) << shift
        packed |= numbers
        # Values are sorted, not row numbers: that is what processors do fast. The row number rides in the lowest bits.
        packed.sort()
        packed &= _low_bits(int(shift))
        order = packed.view(np.int64) if number == 0 else order.take(packed.view(np.int64))
    return order


def descents(keys: Sequence[U64]) -> I64:
    """Return the rows whose key is less than that of the row before."""
    worse = np.zeros(max(0, len(keys[0]) - 1), np.bool_)
    for digit in reversed(keys):
        after, before = digit[1:], digit[:-1]
        worse &= after == before
        worse |= after < before
    return np.flatnonzero(worse) + 1


def rows_below(arrays: Sequence[pa.Array], key: Key, *, inclusive: bool) -> int:
    """Return how many rows of sorted arrays have a key below `key`, or up to it (a prefix: all that begin with it)."""
    low, high = 0, len(arrays[0])
    for array, value in zip(arrays, key, strict=False):
        low, high = _equal_range(array, value, low, high)
    return high if inclusive else low


def _rank(value: KeyValue) -> tuple[int, int | float | str]:
    if value is None:
        return (_NULL, 0)
    return (_NAN, 0) if isinstance(value, float) and math.isnan(value) else (_ORDINARY, value)


def _equal_range(array: pa.Array, value: KeyValue, low: int, high: int) -> tuple[int, int]:
    """Return the rows of [low, high), which are sorted by this column, that hold just this value."""
    missing = columns.nulls(array)
    if missing is not None:
        first_null = low + int(np.searchsorted(missing[low:high], True))  # noqa: FBT003 - the value to find
        if value is None:
            return first_null, high
        high = first_null
    if value is None:
        return high, high
    if columns.is_text(columns.plain_type(array.type)):
        return _text_range(array, str(value), low, high)
    found = columns.bools(array) if pa.types.is_boolean(array.type) else columns.values(array)
    wanted: KeyValue = value
    if pa.types.is_timestamp(array.type):
        step = _MICROSECONDS[array.type.unit]
        whole, rest = divmod(int(value), step)
        if rest:
            edge = low + int(np.searchsorted(found[low:high], whole, "right"))
            return edge, edge
        wanted = whole
    left, right = (int(np.searchsorted(found[low:high], wanted, side)) for side in ("left", "right"))  # type: ignore[call-overload]
    return low + left, low + right


def _text_range(array: pa.Array, value: str, low: int, high: int) -> tuple[int, int]:
    edges = []
    for beyond in (False, True):
        first, last = low, high
        while first < last:
            middle = (first + last) // 2
            here = str(value_at(array, middle))
            if here < value or (beyond and here == value):
                first = middle + 1
            else:
                last = middle
        edges.append(first)
    return edges[0], edges[1]


def _encode(array: pa.Array) -> list[tuple[U64, int]]:
    """Return numbers that compare like the values, in one part or two, and how many bits the largest of each has."""
    missing = columns.nulls(array)
    if columns.is_text(columns.plain_type(array.type)):
        codes = _text_codes(array)
    elif pa.types.is_boolean(array.type):
        codes = columns.bools(array).astype(np.uint64)
    elif pa.types.is_floating(array.type):
        codes = _float_codes(columns.values(array))
    else:
        codes = _int_codes(columns.values(array), missing, moments=pa.types.is_timestamp(array.type))
    if missing is not None:
        # What stands in a null's place is undefined: it must not decide how many bits are needed.
        np.copyto(codes, 0, where=missing)
    top = int(codes.max()) if len(codes) else 0
    if missing is None:
        return [(codes, top.bit_length())]
    if (top + 1).bit_length() > _WORD:
        return [(missing.astype(np.uint64), 1), (codes, _WORD)]
    np.copyto(codes, np.uint64(top + 1), where=missing)
    return [(codes, (top + 1).bit_length())]


def _int_codes(found: np.ndarray, missing: columns.Bools | None, *, moments: bool) -> U64:
    if missing is not None:
        known = found[~missing]
        least = known.min() if len(known) else found.dtype.type(0)
    else:
        least = found.min() if len(found) else found.dtype.type(0)
    # Two's complement: the difference is right modulo 2**64 even where it exceeds an int64.
    codes = found.astype(np.uint64)
    codes -= np.array([least]).astype(np.uint64)[0]
    if moments:
        for step in _STEPS:
            whole = codes // np.uint64(step)
            exact = whole * np.uint64(step) == codes
            if missing is not None:
                exact |= missing
            if exact.all():
                return whole
    return codes


def _float_codes(found: np.ndarray) -> U64:
    wide = found.astype(np.float64)
    wide += 0.0
    bits = wide.view(np.uint64)
    negative = bits >= _TOP_BIT
    codes: U64 = np.where(negative, ~bits, bits | _TOP_BIT)
    # A NaN has many spellings and signs; below the greatest code of all, which a null may need.
    np.copyto(codes, np.uint64((1 << _WORD) - 2), where=np.isnan(wide))
    return codes


def _text_codes(array: pa.Array) -> U64:
    if not pa.types.is_dictionary(array.type):
        array = pc.dictionary_encode(array)
    dictionary = array.dictionary
    if len(dictionary) == 0:
        return np.zeros(len(array), np.uint64)
    ranks = columns.values(pc.rank(dictionary, sort_keys="ascending", tiebreaker="dense")).astype(np.uint64)
    return ranks.take(columns.codes(array), mode="clip")


def _bits(rows: int) -> int:
    return max(1, (max(rows, 1) - 1).bit_length())


def _low_bits(count: int) -> np.uint64:
    return np.uint64((1 << count) - 1)
