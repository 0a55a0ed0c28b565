"""Dictionaries of many files as one: string columns stay codes through the whole merge.

A batch keeps its own file's codes; beside it stands what they mean in the merge's dictionary. A window of hundreds of
batches is put together by Arrow as if codes were numbers, and its codes are translated then, all at once.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from drystone.rows import columns
from drystone.rows.columns import Codes
from drystone.rows.dictionaries import SharedDictionary


@dataclass(frozen=True, slots=True)
class Interned:
    """A batch, and for each of its dictionary columns that is shared, the shared code of each of its values."""

    batch: pa.RecordBatch
    rows: int
    shared: Mapping[str, Codes]

    def slice(self, start: int, rows: int) -> Interned:
        """Return some of its rows; nothing is copied."""
        return Interned(self.batch.slice(start, rows), rows, self.shared)


class Interner:
    """Turns batches into `Interned` ones. Safe for several threads, each with owners of its own.

    A column is shared as long as every batch has it as an int32 dictionary array and all dictionaries together stay
    small; afterwards it is plain in all batches that come.
    """

    def __init__(self) -> None:
        """Nothing is known of the columns before the first batch."""
        self._dictionaries: dict[str, SharedDictionary] = {}
        self._plain: set[str] = set()
        self._texts: tuple[pa.Schema, list[tuple[int, str]]] = (pa.schema([]), [])
        self._lock = threading.Lock()

    def intern(self, owner: Hashable, batch: pa.RecordBatch) -> Interned:
        """Return the batch with its translations. `owner`: whose it is; its next batches mostly share dictionaries."""
        shared = {}
        rows = batch.num_rows
        for position, name in self._text_columns(batch.schema):
            array = batch.column(position)
            translation = self._translation(owner, name, array)
            if translation is not None:
                shared[name] = translation
            elif pa.types.is_dictionary(array.type):
                batch = batch.set_column(position, name, array.cast(array.type.value_type))
        return Interned(batch, rows, shared)

    def shared_array(self, name: str, parts: Sequence[Interned], arrays: Sequence[pa.DictionaryArray]) -> pa.Array:
        """Return the arrays that the parts have of a shared column as one array of the shared dictionary."""
        bases: dict[int, int] = {}
        tables: list[Codes] = []
        starts, size = [], 0
        for part in parts:
            table = part.shared[name]
            if id(table) not in bases:
                bases[id(table)] = size
                tables.append(table)
                size += len(table)
            starts.append(bases[id(table)])
        own = pa.concat_arrays([array.indices for array in arrays])
        found: Codes = columns.empty(len(own), np.int32)
        if size:
            # All tables one behind the other: each row's code is looked up in the one that holds for it.
            places = np.repeat(np.array(starts, np.intp), [part.rows for part in parts])
            places += columns.values(own)
            # A null's code is undefined, so it is clipped rather than trusted.
            np.take(np.concatenate(tables), places, out=found, mode="clip")
        else:
            found[:] = 0
        return columns.coded_array(found, columns.nulls(own), self._dictionaries[name].values)

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
