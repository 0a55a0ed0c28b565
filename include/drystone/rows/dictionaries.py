"""One dictionary for a column that comes from many files, each with a dictionary of its own."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np
import pyarrow as pa

from drystone.rows import columns
from drystone.rows.columns import Codes

_MAX_VALUES = 1 << 16
"""A column with more different values than this is not worth a dictionary of the whole merge."""


class SharedDictionary:
    """Finds the codes that the values of many dictionaries have in one, which grows as values appear.

    Each owner keeps its dictionary for a while (a row group), so a translation is computed once and kept. What a code
    means never changes. Not for two threads at once.
    """

    def __init__(self, kind: pa.DataType) -> None:
        """`kind`: the type of the values."""
        self.values: pa.Array = pa.nulls(0, kind)
        self._known: dict[Hashable, tuple[pa.Array, Codes]] = {}

    def translation(self, owner: Hashable, dictionary: pa.Array) -> Codes | None:
        """Return the shared code of each value of an owner's dictionary, which holds no null.

        None if there would be more than 65,536 values together: then the column is better treated as plain strings.
        """
        known = self._known.get(owner)
        if known is not None and known[0].equals(dictionary):
            return known[1]
        # Arrow's own unification, of arrays that hold each dictionary's codes once: what comes back is the translation.
        pair = [columns.coded_array(np.arange(len(d), dtype=np.int32), None, d) for d in (self.values, dictionary)]
        unified = pa.chunked_array(pair).unify_dictionaries()
        grown = unified.chunk(0).dictionary
        if len(grown) > _MAX_VALUES:
            return None
        self.values = grown
        found = columns.codes(unified.chunk(1))
        self._known[owner] = (dictionary, found)
        return found
