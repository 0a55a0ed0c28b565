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

from drystone.errors import InputError
from drystone.rows import columns
from drystone.rows.columns import I64, U32, U64

KeyValue: TypeAlias = int | float | str | None
Key: TypeAlias = tuple[KeyValue, ...]
Rank: TypeAlias = tuple[tuple[int, int | float | str], ...]

_ORDINARY, _NAN, _NULL = 0, 1, 2
_TOP_BIT = np.uint64(1 << 63)
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""In one tick of a timestamp."""
_STEPS = (1_000_000, 1_000)
"""Timestamps are often whole seconds or milliseconds: such keys are shorter, and one sort of 64 bits orders them."""
_SAMPLE = 1024
_BLOCK = 1 << 15
"""Rows at a time that stay in the processor's cache."""
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
        return int(scalar.value) * MICROSECONDS[scalar.type.unit]
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
    return table.take(columns.fixed_array(pa.uint32(), order, None))


def digits(arrays: Sequence[pa.Array], rows: int) -> list[U64]:
    """Return the keys as unsigned numbers: rows compare like their tuples of digits, the first counting most.

    Each digit leaves enough of its 64 bits free for a row number beside it. Digits of different calls do not compare.
    """
    width = _WORD - _bits(rows)
    encoded = [part for array in arrays for part in _encode(array)]
    found: list[U64] = []
    current: U64 | None = None
    used = 0
    for codes, size in reversed(encoded):
        left = size
        while left:
            part = min(left, width - used)
            piece = codes if part == left else codes & _low_bits(part)
            if current is None:
                current = piece
            else:
                current |= np.left_shift(piece, np.uint64(used), out=piece)
            left, used = left - part, used + part
            if left:
                codes = codes >> np.uint64(part)  # noqa: PLW2901 - what is left of it
            if used == width:
                found.append(current)
                current, used = None, 0
    if current is not None or not found:
        found.append(np.zeros(rows, np.uint64) if current is None else current)
    return found[::-1]


def ordering(keys: Sequence[U64], rows: int) -> U32:
    """Return the row numbers in the order of their keys, equal keys by row number. `keys`: as `digits` returns them."""
    shift, mask = np.uint64(_bits(rows)), _low_bits(_bits(rows))
    order: I64 | None = None
    for digit in reversed(keys):
        packed: U64 = columns.empty(rows, np.uint64)
        if order is not None:
            np.take(digit, order, out=packed, mode="clip")
        np.left_shift(digit if order is None else packed, shift, out=packed)
        _add_row_numbers(packed)
        # Values are sorted, not row numbers: that is what processors do fast. The row number rides in the lowest bits.
        packed.sort()
        packed &= mask
        sorted_rows = packed.view(np.int64)
        order = sorted_rows if order is None else order.take(sorted_rows)
    result: U32 = columns.empty(rows, np.uint32)
    if order is not None:
        np.copyto(result, order, casting="unsafe")
    return result


def _add_row_numbers(packed: U64) -> None:
    few = np.arange(min(len(packed), _BLOCK), dtype=np.uint64)
    for low in range(0, len(packed), _BLOCK):
        part = packed[low : low + _BLOCK]
        part |= few[: len(part)] + np.uint64(low)


def descents(keys: Sequence[U64]) -> I64:
    """Return the rows whose key is less than that of the row before."""
    worse = np.zeros(max(0, len(keys[0]) - 1), np.bool_)
    for digit in reversed(keys):
        after, before = digit[1:], digit[:-1]
        worse &= after == before
        worse |= after < before
    return np.flatnonzero(worse) + 1


def is_sorted(data: pa.RecordBatch | pa.Table, sort_key: Sequence[str]) -> bool:
    """Tell whether the rows are in the order of the sort key."""
    return not len(descents(digits(sort_arrays(data, sort_key), data.num_rows)))


def _rank(value: KeyValue) -> tuple[int, int | float | str]:
    if value is None:
        return (_NULL, 0)
    return (_NAN, 0) if isinstance(value, float) and math.isnan(value) else (_ORDINARY, value)


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
    codes: U64 = columns.empty(len(found), np.uint64)
    # Two's complement: the difference is right modulo 2**64 even where it exceeds an int64.
    np.subtract(found, np.int64(least), out=codes.view(np.int64), dtype=np.int64)
    if missing is not None:
        np.copyto(codes, 0, where=missing)
    return _shortened(codes) if moments else codes


def _shortened(codes: U64) -> U64:
    """Return the codes in the largest step that all of them are multiples of."""
    for step in _STEPS:
        if (codes[:_SAMPLE] % np.uint64(step)).any():
            continue
        whole: U64 = columns.empty(len(codes), np.uint64)
        again: U64 = columns.empty(len(codes), np.uint64)
        np.floor_divide(codes, np.uint64(step), out=whole)
        np.multiply(whole, np.uint64(step), out=again)
        if np.array_equal(again, codes):
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
    found: U64 = columns.empty(len(array), np.uint64)
    return np.take(ranks, columns.codes(array), out=found, mode="clip")


def _bits(rows: int) -> int:
    return max(1, (max(rows, 1) - 1).bit_length())


def _low_bits(count: int) -> np.uint64:
    return np.uint64((1 << count) - 1)
