"""Single keys of a sorted batch, and how many rows lie below one: without touching the other rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from drystone.engine import columns
from drystone.engine.keys import MICROSECONDS, Key, KeyValue, check_sortable, plain_value
from drystone.errors import InputError


class SortColumns:
    """The sort columns of a batch of at least one row. Making it costs some microseconds, a key less than one."""

    __slots__ = ("_columns", "rows")

    def __init__(self, batch: pa.RecordBatch, sort_key: Sequence[str]) -> None:
        """Raises InputError if a column is missing or cannot be sorted by."""
        self.rows = int(batch.num_rows)
        self._columns: list[_Numbers | _Text] = []
        for name in sort_key:
            position = batch.schema.get_field_index(name)
            if position < 0:
                raise InputError(f"sort key: there is no column {name}.", f"There are {', '.join(batch.schema.names)}.")
            array = batch.column(position)
            check_sortable(name, array.type)
            self._columns.append(_Text(array) if columns.is_text(columns.plain_type(array.type)) else _Numbers(array))

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


class _Numbers:
    """Numbers, times, dates, bools: a null's place is after all others."""

    __slots__ = ("_missing", "_step", "_values")

    def __init__(self, array: pa.Array) -> None:
        self._missing = columns.nulls(array)
        self._values = columns.bools(array) if pa.types.is_boolean(array.type) else columns.values(array)
        self._step = MICROSECONDS[array.type.unit] if pa.types.is_timestamp(array.type) else 1

    def value(self, row: int) -> KeyValue:
        if self._missing is not None and self._missing[row]:
            return None
        found: KeyValue = self._values[row].item()
        if isinstance(found, bool):
            return int(found)
        return found if self._step == 1 or found is None else found * self._step

    def equal_range(self, value: KeyValue, low: int, high: int) -> tuple[int, int]:
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


class _Text:
    """Strings: looked at one by one, so that no dictionary needs to be sorted."""

    __slots__ = ("_array",)

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def value(self, row: int) -> KeyValue:
        return plain_value(self._array[row])

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
