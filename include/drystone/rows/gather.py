"""The rows of a window, column by column as one array each, and any selection of them in any order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.rows import columns
from drystone.rows.columns import U32
from drystone.rows.interning import Interned, Interner


class _Column:
    """A column of a window, gathered by Arrow; validity as bytes, for Arrow gathers numbers fast, but not bits."""

    def __init__(self, array: pa.Array) -> None:
        self._dictionary = array.dictionary if pa.types.is_dictionary(array.type) else None
        values = array if self._dictionary is None else array.indices
        missing = columns.nulls(values) if columns.is_fixed(values.type) else None
        self._values = values if missing is None else columns.without_nulls(values)
        self._missing = None if missing is None else columns.fixed_array(pa.uint8(), missing.view(np.uint8), None)

    def take(self, order: pa.Array) -> pa.Array:
        found = pc.take(self._values, order, boundscheck=False)
        if self._missing is not None:
            missing = columns.values(pc.take(self._missing, order, boundscheck=False)).view(np.bool_)
            found = columns.with_nulls(found, missing)
        if self._dictionary is None:
            return found
        return pa.DictionaryArray.from_arrays(found, self._dictionary, safe=False)


class Window:
    """The rows of several batches, one after the other. The batches are free to go once it is made."""

    def __init__(self, parts: Sequence[Interned], interner: Interner) -> None:
        """`parts`: at least one; all with the same columns."""
        self.rows = sum(part.rows for part in parts)
        shared = set(parts[0].shared).intersection(*(part.shared for part in parts))
        table = pa.Table.from_batches([_plain_but(part, shared) for part in parts])
        self._arrays: dict[str, pa.Array] = {}
        for name in table.column_names:
            column = table.column(name)
            if name in shared:
                self._arrays[name] = interner.shared_array(name, parts, column.chunks)
            else:
                self._arrays[name] = columns.whole(column.combine_chunks())
        self._columns = {name: _Column(array) for name, array in self._arrays.items()}

    def array(self, name: str) -> pa.Array:
        """Return a whole column; a coded one as a dictionary array."""
        return self._arrays[name]

    def take(self, order: U32) -> pa.Table:
        """Return the rows with these numbers, in this order."""
        numbers = columns.fixed_array(pa.uint32(), order, None)
        arrays = [column.take(numbers) for column in self._columns.values()]
        return pa.Table.from_arrays(arrays, names=list(self._columns))


def _plain_but(part: Interned, shared: set[str]) -> pa.RecordBatch:
    """Return the batch with plain strings in all shared columns but these."""
    batch = part.batch
    for name in part.shared.keys() - shared:
        position = batch.schema.get_field_index(name)
        array = batch.column(position)
        batch = batch.set_column(position, name, array.cast(array.type.value_type))
    return batch
