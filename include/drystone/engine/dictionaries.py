"""One dictionary for a column that comes from many files, each with a dictionary of its own."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
import pyarrow as pa

from drystone.engine import columns
from drystone.engine.columns import Codes

_MAX_VALUES = 1 << 16
"""A column with more different values than this is not worth a dictionary of the whole merge."""


class SharedDictionary:
    """Translates the codes of many dictionaries into those of one, which grows as values appear.

    Each contributor keeps its dictionary for a while (a row group), so a translation is computed once and kept. With
    more than 65,536 values `fits` turns False for good: then the column is better treated as plain strings.
    """

    def __init__(self, kind: pa.DataType) -> None:
        """`kind`: the type of the values."""
        self.values: pa.Array = pa.array([], kind)
        self.fits = True
        self._known: dict[Hashable, tuple[pa.Array, Codes]] = {}

    def learn(self, parts: Sequence[tuple[Hashable, pa.DictionaryArray]]) -> bool:
        """Take up the dictionaries of these contributors; return whether the column still fits.

        The arrays' dictionaries must hold no null.
        """
        fresh: dict[Hashable, pa.Array] = {}
        for owner, array in parts:
            known = self._known.get(owner)
            if known is None or not known[0].equals(array.dictionary):
                fresh[owner] = array.dictionary
        if fresh and self.fits:
            self._translate(fresh)
        return self.fits

    def codes(self, owner: Hashable, array: pa.DictionaryArray) -> Codes:
        """Return the shared codes of a contributor's array, which `learn` has seen last for that contributor."""
        own = columns.codes(array)
        translation = self._known[owner][1]
        # A null's code is undefined, so it is clipped rather than trusted.
        return translation.take(own, mode="clip") if len(translation) else np.zeros(len(own), np.int32)

    def _translate(self, fresh: dict[Hashable, pa.Array]) -> None:
        # Arrow's own unification, of arrays that hold each dictionary's codes once: what comes back is the translation.
        every = [self.values, *fresh.values()]
        arrays = [columns.coded_array(np.arange(len(values), dtype=np.int32), None, values) for values in every]
        unified = pa.chunked_array(arrays).unify_dictionaries()
        self.values = unified.chunk(0).dictionary
        self.fits = len(self.values) <= _MAX_VALUES
        for position, (owner, dictionary) in enumerate(fresh.items(), 1):
            self._known[owner] = (dictionary, columns.codes(unified.chunk(position)))
