"""Single keys of sorted batches, and how many rows lie below one: without touching the other rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from drystone.errors import InputError
from drystone.rows import columns
from drystone.rows.keys import MICROSECONDS, Key, KeyValue, check_sortable, plain_value


class SortColumns:
    """The sort columns of one batch of at least one row. Made by a `KeyReader`."""

    __slots__ = ("_columns", "rows")

    def __init__(self, rows: int, columns_: list[_Column]) -> None:
        """`columns_`: of the sort key, in its order."""
        self.rows = rows
        self._columns = columns_

    def key(self, row: int) -> Key:
        """Return the key of a row."""
        return tuple([column.value(row) for column in self._columns])

    def rows_below(self, key: Key, start: int = 0, *, inclusive: bool) -> int:
        """Return the first row from `start` on whose key is not below `key`, or, if `inclusive`, is beyond it.

        The rows from `start` on must be in order. Of a prefix, all keys that begin with it are equal to it.
        """
        low, high = start, self.rows
        for column, value in zip(self._columns, key, strict=False):
            low, high = column.equal_range(value, low, high)
        return high if inclusive else low


class KeyReader:
    """Makes the `SortColumns` of batch after batch of one input, in some microseconds each.

    It keeps what batches of a row group share: where the columns are, and the values of dictionaries.
    """

    def __init__(self, sort_key: Sequence[str]) -> None:
        """`sort_key`: the names of its columns."""
        self._sort_key = sort_key
        self._schema: pa.Schema | None = None
        self._positions: list[int] = []
        self._texts: dict[int, tuple[pa.Array, list[KeyValue]]] = {}

    def columns(self, batch: pa.RecordBatch) -> SortColumns:
        """Return the batch's sort columns. Raises InputError if one is missing or cannot be sorted by."""
        schema = batch.schema
        if self._schema is None or not self._schema.equals(schema):
            self._positions = [self._position(schema, name) for name in self._sort_key]
            self._schema = schema
        return SortColumns(batch.num_rows, [self._column(at, batch.column(at)) for at in self._positions])

    def _position(self, schema: pa.Schema, name: str) -> int:
        position = int(schema.get_field_index(name))
        if position < 0:
            raise InputError(f"sort key: there is no column {name}.", f"There are {', '.join(schema.names)}.")
        check_sortable(name, schema.field(position).type)
        return position

    def _column(self, position: int, array: pa.Array) -> _Column:
        if pa.types.is_dictionary(array.type):
            dictionary = array.dictionary
            known = self._texts.get(position)
            if known is None or not known[0].equals(dictionary):
                known = self._texts[position] = (dictionary, dictionary.to_pylist())
            return _Coded(array, known[1])
        return _Text(array) if columns.is_text(array.type) else _Numbers(array)


class _Column(Protocol):
    def value(self, row: int) -> KeyValue:
        """Return the value of a row."""

    def equal_range(self, value: KeyValue, low: int, high: int) -> tuple[int, int]:
        """Return the rows of [low, high), which are in the order of this column, that hold just this value."""


class _Numbers:
    """Numbers, times, dates, bools: a null's place is after all others."""

    __slots__ = ("_missing", "_step", "_values")

    def __init__(self, array: pa.Array) -> None:
        kind = array.type
        self._missing = columns.nulls(array)
        self._values = columns.bools(array) if pa.types.is_boolean(kind) else columns.values(array)
        self._step = MICROSECONDS[kind.unit] if pa.types.is_timestamp(kind) else 1

    def value(self, row: int) -> KeyValue:
        if self._missing is not None and self._missing[row]:
            return None
        found: KeyValue = self._values[row].item()
        if isinstance(found, bool):
            return int(found)
        return found if self._step == 1 or found is None else found * self._step

    def equal_range(self, value: KeyValue, low: int, high: int) -> tuple[int, int]:
        if low == high:
            return low, high
        if self._missing is not None:
            first_null = low + int(np.searchsorted(self._missing[low:high], True))  # noqa: FBT003 - the value to find
            if value is None:
                return first_null, high
            high = first_null
        if value is None:
            return high, high
        part = self._values[low:high]
        wanted: int | float = value if not isinstance(value, str) else 0
        if self._step != 1:
            whole, rest = divmod(int(value), self._step)
            if rest:
                edge = low + int(part.searchsorted(whole, "right"))
                return edge, edge
            wanted = whole
        return low + int(part.searchsorted(wanted)), low + int(part.searchsorted(wanted, "right"))


class _Strings:
    """Strings: looked at one by one, so that no dictionary needs to be sorted."""

    __slots__ = ()

    def value(self, row: int) -> KeyValue:
        raise NotImplementedError

    def equal_range(self, value: KeyValue, low: int, high: int) -> tuple[int, int]:
        wanted = (value is None, value or "")
        first = self._first(wanted, low, high, beyond=False)
        return first, self._first(wanted, first, high, beyond=True)

    def _first(self, wanted: tuple[bool, KeyValue], low: int, high: int, *, beyond: bool) -> int:
        while low < high:
            middle = (low + high) // 2
            found = self.value(middle)
            here = (found is None, found or "")
            if here < wanted or (beyond and here == wanted):
                low = middle + 1
            else:
                high = middle
        return low


class _Coded(_Strings):
    __slots__ = ("_codes", "_missing", "_texts")

    def __init__(self, array: pa.DictionaryArray, texts: list[KeyValue]) -> None:
        self._codes = columns.codes(array)
        self._missing = columns.nulls(array)
        self._texts = texts

    def value(self, row: int) -> KeyValue:
        if self._missing is not None and self._missing[row]:
            return None
        return self._texts[int(self._codes[row])]


class _Text(_Strings):
    __slots__ = ("_array",)

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def value(self, row: int) -> KeyValue:
        return plain_value(self._array[row])
