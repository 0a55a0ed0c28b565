"""The `index` file of a block: where each row group is, and what it holds, so that chunks need not be opened.

Source: the design, "Blocks: layout". It is a Parquet file of one row per row group, in the order of the rows:

| column | type | meaning |
|---|---|---|
| `file` | string | the chunk file, relative to the block: `chunks/000001.parquet` |
| `ordinal` | int32 | the row group's number in its file, from 0 |
| `offset`, `length` | int64 | the bytes of the row group in its file |
| `rows` | int64 | its rows |
| `time_min`, `time_max` | int64 | the known times of its rows, [time_min, time_max) in ms since the epoch; null: none |
| `min_<column>`, `max_<column>` | the column's | for each column of the sort key, in its order |

Minimum and maximum are those of the order of keys (see `keys`): a null comes last. So the maximum is null if any row
has a null there, and the minimum only if all have. The key-value metadata `drystone.index` holds the version, 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.parquet as pq

from drystone.errors import UnreadableBlockError
from drystone.rows import columns, keys
from drystone.rows.keys import Key

_FIXED = pa.schema(
    [
        pa.field("file", pa.string(), nullable=False),
        pa.field("ordinal", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("time_min", pa.int64()),
        pa.field("time_max", pa.int64()),
    ]
)
_VERSION_KEY = b"drystone.index"
_VERSION = b"1"


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One row group. `mins` and `maxs` as keys have them, column by column of the sort key.

    Times in ms, half-open, of the rows that have one; None where no row has.
    """

    file: str
    ordinal: int
    offset: int
    length: int
    rows: int
    min_time: int | None
    max_time: int | None
    mins: Key
    maxs: Key

    def touches(self, start: int | None, end: int | None) -> bool:
        """Tell whether a row can have start <= time < end (ms; None: open). Without a range, every row counts."""
        if start is None and end is None:
            return True
        if self.min_time is None or self.max_time is None:
            return False
        return (start is None or self.max_time > start) and (end is None or self.min_time < end)


def write_index(path: Path, entries: Sequence[IndexEntry], schema: pa.Schema, sort_key: Sequence[str]) -> None:
    """Write the index of a block whose rows have this schema and order."""
    found: dict[str, object] = {
        "file": [entry.file for entry in entries],
        "ordinal": [entry.ordinal for entry in entries],
        "offset": [entry.offset for entry in entries],
        "length": [entry.length for entry in entries],
        "rows": [entry.rows for entry in entries],
        "time_min": [entry.min_time for entry in entries],
        "time_max": [entry.max_time for entry in entries],
    }
    arrays = [pa.array(found[field.name], field.type) for field in _FIXED]
    fields = list(_FIXED)
    for number, name in enumerate(sort_key):
        kind = columns.plain_type(schema.field(name).type)
        for bound, values in (("min", [e.mins[number] for e in entries]), ("max", [e.maxs[number] for e in entries])):
            fields.append(pa.field(f"{bound}_{name}", kind))
            arrays.append(_typed(values, kind))
    table = pa.Table.from_arrays(arrays, schema=pa.schema(fields, {_VERSION_KEY: _VERSION}))
    pq.write_table(table, path, compression="zstd")


def read_index(source: bytes | Path | IO[bytes] | pa.NativeFile) -> list[IndexEntry]:
    """Return the entries of an index, from its bytes or its file, in the order of the rows.

    Raises UnreadableBlockError for what is no index, or one of another version.
    """
    file = pa.BufferReader(source) if isinstance(source, bytes) else source
    try:
        # Without threads: one of Arrow's that still lets go of our bytes when the program ends would abort it.
        table = pq.ParquetFile(file, pre_buffer=False).read(use_threads=False)
    except pa.ArrowInvalid as error:
        raise UnreadableBlockError(f"an index cannot be read: {error}.", "Verify its block.") from None
    version = (table.schema.metadata or {}).get(_VERSION_KEY)
    names = table.column_names
    if version != _VERSION or names[: len(_FIXED)] != _FIXED.names:
        raise UnreadableBlockError(f"an index has format {version!r}, known is {_VERSION!r}.")
    bounds = names[len(_FIXED) :]
    mins = _keys(table, bounds[::2])
    maxs = _keys(table, bounds[1::2])
    fixed = [table.column(name).to_pylist() for name in _FIXED.names]
    return [IndexEntry(*row) for row in zip(*fixed, mins, maxs, strict=True)]


def _keys(table: pa.Table, names: Sequence[str]) -> list[Key]:
    arrays = [columns.whole(table.column(name)) for name in names]
    return [keys.key_at(arrays, row) for row in range(table.num_rows)]


def _typed(values: Sequence[keys.KeyValue], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.timestamp("us", kind.tz)).cast(kind)
    if pa.types.is_date32(kind):
        return pa.array(values, pa.int32()).cast(kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if value is None else bool(value) for value in values], kind)
    return pa.array(values, kind)
