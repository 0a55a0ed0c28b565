"""Tables on local disk between two passes of a merge: written once, read back once, then removed.

Arrow's own stream, compressed by LZ4: no encoding to make and to undo, and dictionaries stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc


def spill(tables: Iterator[pa.Table], path: Path, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Write the tables to `path` now, and return an iterator that reads them back and removes the file at its end.

    It comes in batches of at most `batch_rows` rows, in the types of the first table: dictionary arrays or plain ones.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    first = next(tables, None)
    if first is None:
        return iter(())
    # What is added to a dictionary is written when it is first used, not all of it again with each batch.
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False, emit_dictionary_deltas=True)
    with pa.OSFile(str(path), mode="w") as sink, pa.ipc.new_stream(sink, first.schema, options=options) as writer:
        for table in chain((first,), tables):
            # Which columns are dictionaries varies from table to table.
            same = table.schema.equals(first.schema)
            writer.write_table(table if same else table.cast(first.schema), max_chunksize=batch_rows)
    return _read_back(path)


def _read_back(path: Path) -> Iterator[pa.RecordBatch]:
    try:
        with pa.OSFile(str(path), mode="r") as source, pa.ipc.open_stream(source) as reader:
            yield from reader
    finally:
        path.unlink(missing_ok=True)
