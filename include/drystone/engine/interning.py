"""Batches of many files in one layout: string columns as codes, with what they mean in the whole merge's dictionary.

Codes are ordinary int32 columns, so a window of hundreds of batches is put together by Arrow as fast as numbers are;
they are translated then, all at once.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from drystone.engine import columns
from drystone.engine.columns import Codes
from drystone.engine.dictionaries import SharedDictionary


@dataclass(frozen=True, slots=True)
class Interned:
    """A batch in which some string columns hold their own file's codes; `shared` says which, and the shared codes."""

    batch: pa.RecordBatch
    rows: int
    shared: Mapping[str, Codes]

    def slice(self, start: int, rows: int) -> Interned:
        """Return some of its rows; nothing is copied."""
        return Interned(self.batch.slice(start, rows), rows, self.shared)


class Interner:
    """Turns batches into `Interned` ones and back. Safe for several threads, each with owners of its own.

    A column is coded as long as every batch has it as an int32 dictionary array and all dictionaries together stay
    small; afterwards it is plain in all batches that come, and what was coded before is decoded when it meets them.
    """

    def __init__(self) -> None:
        """Nothing is known of the columns before the first batch."""
        self._dictionaries: dict[str, SharedDictionary] = {}
        self._plain: set[str] = set()
        self._texts: tuple[pa.Schema, list[tuple[int, str]]] = (pa.schema([]), [])
        self._lock = threading.Lock()

    def intern(self, owner: Hashable, batch: pa.RecordBatch) -> Interned:
        """Return the batch in the merge's layout. `owner`: whose it is; its next batches mostly share dictionaries."""
        texts = self._text_columns(batch.schema)
        if not texts:
            return Interned(batch, batch.num_rows, {})
        arrays, shared = batch.columns, {}
        for position, name in texts:
            array = arrays[position]
            translation = self._translation(owner, name, array)
            if translation is None:
                arrays[position] = array.cast(columns.plain_type(array.type))
            else:
                arrays[position] = array.indices
                shared[name] = translation
        return Interned(pa.RecordBatch.from_arrays(arrays, names=batch.schema.names), batch.num_rows, shared)

    def dictionary(self, name: str) -> pa.Array:
        """Return the values that a column's shared codes mean so far; codes keep their meaning."""
        return self._dictionaries[name].values

    def array(self, name: str, array: pa.Array, translations: list[tuple[int, Codes]]) -> pa.DictionaryArray:
        """Return codes as the dictionary array that they stand for.

        `translations`: how many rows each translation holds for, from the first row to the last.
        """
        bases: dict[int, int] = {}
        tables: list[Codes] = []
        size = 0
        for _, table in translations:
            if id(table) not in bases:
                bases[id(table)] = size
                tables.append(table)
                size += len(table)
        found: Codes = columns.empty(len(array), np.int32)  # type: ignore[assignment]
        if size:
            starts = np.array([bases[id(table)] for _, table in translations], np.int32)
            # All tables one behind the other: each row's code is looked up in the one that holds for it.
            places = np.repeat(starts, [rows for rows, _ in translations])
            np.add(places, columns.values(array), out=places)
            # A null's code is undefined, so it is clipped rather than trusted.
            np.take(np.concatenate(tables), places, out=found, mode="clip")
        else:
            found[:] = 0
        return columns.coded_array(found, columns.nulls(array), self.dictionary(name))

    def table(self, interned: Interned) -> pa.Table:
        """Return the rows as they were, coded columns as dictionary arrays."""
        names = interned.batch.schema.names
        arrays = [
            self.array(name, array, [(interned.rows, interned.shared[name])]) if name in interned.shared else array
            for name, array in zip(names, interned.batch.columns, strict=True)
        ]
        return pa.Table.from_arrays(arrays, names=names)

    def _text_columns(self, schema: pa.Schema) -> list[tuple[int, str]]:
        known, texts = self._texts
        if not known.equals(schema):
            texts = [
                (position, field.name)
                for position, field in enumerate(schema)
                if columns.is_text(columns.plain_type(field.type))
            ]
            self._texts = (schema, texts)
        return texts

    def _translation(self, owner: Hashable, name: str, array: pa.Array) -> Codes | None:
        """Return what the array's codes mean, or None if the column is plain."""
        if name in self._plain:
            return None
        kind = array.type
        if not pa.types.is_dictionary(kind) or kind.index_type != pa.int32() or array.dictionary.null_count:
            self._plain.add(name)
            return None
        with self._lock:
            shared = self._dictionaries.get(name)
            if shared is None:
                shared = self._dictionaries[name] = SharedDictionary(kind.value_type)
            found = shared.translation(owner, array.dictionary)
        if found is None:
            self._plain.add(name)
        return found
