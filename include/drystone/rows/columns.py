"""Arrow arrays as numpy arrays without a copy: the footing of every kernel here. Pure; nothing is mutated."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Bools: TypeAlias = NDArray[np.bool_]
Codes: TypeAlias = NDArray[np.int32]
U64: TypeAlias = NDArray[np.uint64]
I64: TypeAlias = NDArray[np.int64]


U32: TypeAlias = NDArray[np.uint32]


def empty(rows: int, dtype: type[np.generic]) -> NDArray[Any]:
    """Return an array of undefined content in Arrow's memory.

    Arrow keeps memory for the next one, where numpy's own comes from the system, page by page, each time: for arrays of
    some megabytes that costs more than what is done with them.
    """
    kind = np.dtype(dtype)
    return np.frombuffer(pa.allocate_buffer(max(1, rows) * kind.itemsize), kind, rows)


def is_fixed(kind: pa.DataType) -> bool:
    """Tell whether `values` can show the column: numbers, dates and timestamps (bools are bit-packed)."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_float32(kind)
        or pa.types.is_float64(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    """Tell whether the column holds strings or bytes, whatever the width of its offsets."""
    return bool(
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type of a column's values: of the dictionary's, where it has one."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def values(array: pa.Array) -> NDArray[Any]:
    """Return the values of an `is_fixed` array as stored; what stands in a null's place is undefined."""
    kind = array.type.to_pandas_dtype() if not _is_moment(array.type) else None
    dtype = np.dtype(kind if kind is not None else f"i{array.type.bit_width // 8}")
    return _view(array.buffers()[1], dtype, array.offset, len(array))


def nulls(array: pa.Array) -> Bools | None:
    """Return which slots are null, or None where none is."""
    if array.null_count == 0:
        return None
    bits = array.buffers()[0]
    if bits is None:
        return np.asarray(array.is_null())
    return np.logical_not(_unpack(bits, array.offset, len(array)))


def bools(array: pa.Array) -> Bools:
    """Return the values of a bool array; what stands in a null's place is undefined."""
    return _unpack(array.buffers()[1], array.offset, len(array))


def codes(array: pa.DictionaryArray) -> Codes:
    """Return a dictionary array's codes as int32; what stands in a null's place is undefined."""
    return values(array.indices).astype(np.int32, copy=False)


def fixed_array(kind: pa.DataType, found: NDArray[np.generic], missing: Bools | None) -> pa.Array:
    """Return the Arrow array of these values, with a null wherever `missing` is true."""
    bits = None
    if missing is not None:
        bits = pa.py_buffer(np.packbits(np.logical_not(missing), bitorder="little"))
    return pa.Array.from_buffers(kind, len(found), [bits, pa.py_buffer(np.ascontiguousarray(found))])


def without_nulls(array: pa.Array) -> pa.Array:
    """Return an `is_fixed` array without its validity; what stands in a null's place is undefined."""
    return pa.Array.from_buffers(array.type, len(array), [None, array.buffers()[1]], 0, array.offset)


def with_nulls(array: pa.Array, missing: Bools) -> pa.Array:
    """Return an `is_fixed` array without nulls with a null wherever `missing` is true."""
    if not missing.any():
        return array
    bits = pa.py_buffer(np.packbits(np.logical_not(missing), bitorder="little"))
    return pa.Array.from_buffers(array.type, len(array), [bits, array.buffers()[1]], -1, array.offset)


def coded_array(found: Codes, missing: Bools | None, dictionary: pa.Array) -> pa.DictionaryArray:
    """Return the dictionary array of these codes, which must be in range, with a null wherever `missing` is true."""
    return pa.DictionaryArray.from_arrays(fixed_array(pa.int32(), found, missing), dictionary, safe=False)


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array; dictionaries of its chunks become one, without nulls among its values."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    if pa.types.is_dictionary(column.type) and any(chunk.dictionary.null_count for chunk in chunks):
        chunks = [chunk.cast(column.type.value_type) for chunk in chunks]
    if len(chunks) == 1:
        return chunks[0]
    joined = pa.chunked_array(chunks, None if chunks else column.type)
    return joined.unify_dictionaries().combine_chunks()


def compact(array: pa.Array) -> pa.Array:
    """Return a dictionary array without the values that none of its rows has, if they may be many; else the array."""
    if not pa.types.is_dictionary(array.type) or len(array.dictionary) <= len(array) // 8:
        return array
    used, own = np.unique(codes(array.drop_null()), return_inverse=True)
    places = np.zeros(len(array), np.int32)
    missing = nulls(array)
    places[slice(None) if missing is None else ~missing] = own
    return coded_array(places, missing, array.dictionary.take(fixed_array(pa.int32(), used, None)))


def size(table: pa.Table) -> int:
    """Return the bytes of the rows themselves: of a dictionary array its codes, for many slices may share the rest."""
    found = 0
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            found += sum(chunk.indices.nbytes for chunk in column.chunks)
        else:
            found += column.nbytes
    return found


def _is_moment(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def _view(buffer: pa.Buffer | None, dtype: np.dtype[np.generic], offset: int, length: int) -> NDArray[Any]:
    if buffer is None or length == 0:
        return np.empty(0, dtype)
    return np.frombuffer(buffer, dtype, count=length, offset=offset * dtype.itemsize)


def _unpack(buffer: pa.Buffer | None, offset: int, length: int) -> Bools:
    if buffer is None or length == 0:
        return np.empty(0, np.bool_)
    first, skipped = divmod(offset, 8)
    raw = np.frombuffer(buffer, np.uint8, count=(skipped + length + 7) // 8, offset=first)
    return np.unpackbits(raw, bitorder="little")[skipped : skipped + length].view(np.bool_)
