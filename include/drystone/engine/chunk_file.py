"""One Parquet file of a block: how values are encoded, and where its row groups lie.

Encodings were chosen by measuring: strings by dictionary (which readers and the next compaction keep), the first sort
column by differences where it is an integer or a time, all other numbers plainly, for zstd finds more in plain numbers
than in codes of a dictionary, and faster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from drystone.engine import columns

_PAGE_ROWS = 8192
"""Rows of a data page: what a merge of hundreds of files holds of each column of each file."""
_SLOT = 6


class ChunkFile:
    """`chunks/<number>.parquet` in the making. `places`, after `close`: each row group's ordinal, offset and length."""

    def __init__(self, folder: Path, number: int, schema: pa.Schema, sort_key: Sequence[str]) -> None:
        """Create the file. `schema`: plain types, in the order of the columns."""
        self.rel_path = f"chunks/{number:0{_SLOT}}.parquet"
        self.path = folder / self.rel_path
        self.places: list[tuple[int, int, int]] = []
        self._schema = schema
        self._sort_key = tuple(sort_key)
        self._writer: pq.ParquetWriter | None = None
        self._file: pa.NativeFile | None = None

    @property
    def written(self) -> int:
        """Bytes in the file so far."""
        return 0 if self._file is None else int(self._file.tell())

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch as one row group."""
        if self._writer is None:
            self._open(batch.schema)
        assert self._writer is not None  # noqa: S101 - for the type checker: _open made it
        table = pa.Table.from_batches([batch]).cast(self._writer.schema)
        self._writer.write_table(table, row_group_size=batch.num_rows)

    def close(self) -> int:
        """Write the footer; return the file's bytes."""
        if self._writer is None:
            self._open(self._schema)
        assert self._writer is not None  # noqa: S101 - for the type checker: _open made it
        assert self._file is not None  # noqa: S101 - for the type checker: _open made it
        self._writer.close()
        self._file.close()
        metadata = pq.read_metadata(self.path)
        self.places = [(group, *extent(metadata.row_group(group))) for group in range(metadata.num_row_groups)]
        return self.path.stat().st_size

    def _open(self, schema: pa.Schema) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = pa.OSFile(str(self.path), mode="w")
        fields = [schema.field(field.name) for field in self._schema]
        coded = [field.name for field in fields if columns.is_text(columns.plain_type(field.type))]
        numbers = [field.name for field in fields if field.name not in coded]
        self._writer = pq.ParquetWriter(
            self._file,
            pa.schema(fields),
            compression="zstd",
            compression_level=1,
            use_dictionary=coded,
            column_encoding=self._differences(),
            # Strings have statistics where pruning looks at them; elsewhere they cost more than they are worth.
            write_statistics=[*numbers, *(name for name in self._sort_key if name in coded)],
            write_page_index=True,
            max_rows_per_page=_PAGE_ROWS,
            store_schema=False,
            sorting_columns=[pq.SortingColumn(self._schema.names.index(name)) for name in self._sort_key],
        )

    def _differences(self) -> dict[str, str] | None:
        first = self._schema.field(self._sort_key[0])
        if pa.types.is_timestamp(first.type) or pa.types.is_integer(first.type) or pa.types.is_date32(first.type):
            return {first.name: "DELTA_BINARY_PACKED"}
        return None


def extent(group: pq.RowGroupMetaData) -> tuple[int, int]:
    """Return where the row group's bytes begin, and how many there are."""
    starts, size = [], 0
    for position in range(group.num_columns):
        chunk = group.column(position)
        pages = [chunk.data_page_offset]
        if chunk.has_dictionary_page:
            pages.append(chunk.dictionary_page_offset)
        starts.append(min(pages))
        size += chunk.total_compressed_size
    return min(starts), size
