"""The rows of a window, column by column as one array each, and any selection of them in any order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.engine import columns
from drystone.engine.columns import I64, Bools
from drystone.engine.dictionaries import SharedDictionary
from drystone.engine.merge_input import Piece


class _Fixed:
    """A column of fixed width: gathered by numpy, validity as bytes."""

    def __init__(self, kind: pa.DataType, values: np.ndarray, missing: Bools | None) -> None:
        self._kind, self._values, self._missing = kind, values, missing

    def take(self, order: I64) -> pa.Array:
        missing = None if self._missing is None else self._missing.take(order)
        return columns.fixed_array(self._kind, self._values.take(order), missing)

    def whole(self) -> pa.Array:
        return columns.fixed_array(self._kind, self._values, self._missing)


class _Coded:
    """A column of codes into a shared dictionary."""

    def __init__(self, codes: columns.Codes, missing: Bools | None, dictionary: pa.Array) -> None:
        self._codes, self._missing, self._dictionary = codes, missing, dictionary

    def take(self, order: I64) -> pa.Array:
        missing = None if self._missing is None else self._missing.take(order)
        return columns.coded_array(self._codes.take(order), missing, self._dictionary)

    def whole(self) -> pa.Array:
        return columns.coded_array(self._codes, self._missing, self._dictionary)


class _Other:
    """A column of any other type: gathered by Arrow."""

    def __init__(self, array: pa.Array) -> None:
        self._array = array

    def take(self, order: I64) -> pa.Array:
        return pc.take(self._array, pa.array(order), boundscheck=False)

    def whole(self) -> pa.Array:
        return self._array


class Gatherer:
    """Loads one window after another, and keeps the shared dictionaries of its string columns between them."""

    def __init__(self) -> None:
        """No rows yet."""
        self.rows = 0
        self._columns: dict[str, _Fixed | _Coded | _Other] = {}
        self._dictionaries: dict[str, SharedDictionary] = {}

    def load(self, pieces: Sequence[Piece]) -> None:
        """Take the rows of these pieces, one after the other, instead of those before."""
        self.rows = sum(piece.batch.num_rows for piece in pieces)
        names = pieces[0].batch.schema.names
        self._columns.clear()
        for position, name in enumerate(names):
            self._columns[name] = self._load(name, pieces, [piece.batch.column(position) for piece in pieces])

    def column(self, name: str) -> pa.Array:
        """Return a whole column, in the order in which the rows were loaded."""
        return self._columns[name].whole()

    def take(self, order: I64) -> pa.Table:
        """Return the rows with these numbers, in this order."""
        return pa.table({name: column.take(order) for name, column in self._columns.items()})

    def _load(self, name: str, pieces: Sequence[Piece], arrays: Sequence[pa.Array]) -> _Fixed | _Coded | _Other:
        kinds = {array.type for array in arrays}
        if len(kinds) == 1 and columns.is_fixed(arrays[0].type):
            found = np.concatenate([columns.values(array) for array in arrays])
            return _Fixed(arrays[0].type, found, _missing(arrays))
        if all(pa.types.is_dictionary(kind) for kind in kinds):
            coded = self._coded(name, pieces, arrays)
            if coded is not None:
                return coded
        plain = [array.cast(columns.plain_type(array.type)) for array in arrays]
        return _Other(pa.concat_arrays(plain))

    def _coded(self, name: str, pieces: Sequence[Piece], arrays: Sequence[pa.Array]) -> _Coded | None:
        shared = self._dictionaries.get(name)
        if shared is None:
            shared = self._dictionaries[name] = SharedDictionary(arrays[0].type.value_type)
        if any(array.dictionary.null_count for array in arrays):
            return None
        codes = []
        owners = [id(piece.source) for piece in pieces]
        repeated = len(set(owners)) < len(owners)
        if not repeated:
            if not shared.learn(list(zip(owners, arrays, strict=True))):
                return None
            codes = [shared.codes(owner, array) for owner, array in zip(owners, arrays, strict=True)]
        else:
            for owner, array in zip(owners, arrays, strict=True):
                if not shared.learn([(owner, array)]):
                    return None
                codes.append(shared.codes(owner, array))
        return _Coded(np.concatenate(codes), _missing(arrays), shared.values)


def _missing(arrays: Sequence[pa.Array]) -> Bools | None:
    if not any(array.null_count for array in arrays):
        return None
    found = [columns.nulls(array) for array in arrays]
    return np.concatenate(
        [np.zeros(len(array), np.bool_) if part is None else part for array, part in zip(arrays, found, strict=True)]
    )
