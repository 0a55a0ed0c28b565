"""Tables on local disk between two passes of a merge: written once, read back once, then removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from drystone.engine import columns
from drystone.engine.reading import describe, open_sorted

_ROWS = 65_536
"""Rows of a row group: what the reader of one such file holds is small, for many are read at once."""


def spill(tables: Iterator[pa.Table], path: Path, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Write the tables to `path` now, and return an iterator that reads them back and removes the file at its end."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer: pq.ParquetWriter | None = None
    try:
        for table in tables:
            plain = _decoded(table)
            if writer is None:
                writer = pq.ParquetWriter(path, plain.schema, compression="lz4", write_statistics=False)
            writer.write_table(plain, row_group_size=_ROWS)
    finally:
        if writer is not None:
            writer.close()
    return _read_back(path, batch_rows) if writer is not None else iter(())


def _decoded(table: pa.Table) -> pa.Table:
    """Return the table with plain strings: which columns are dictionaries varies from table to table."""
    fields = [pa.field(field.name, columns.plain_type(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def _read_back(path: Path, batch_rows: int) -> Iterator[pa.RecordBatch]:
    try:
        yield from open_sorted(describe(path.name, lambda: path), batch_rows=batch_rows)
    finally:
        path.unlink(missing_ok=True)
