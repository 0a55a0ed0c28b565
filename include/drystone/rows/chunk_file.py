"""One Parquet file of a block: pages, statistics, and where its row groups lie. Encodings: see `encodings`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from drystone.rows import columns
from drystone.rows.encodings import CODEC, choose_encodings
from drystone.rows.reading import PAGE_ROWS_KEY

_PAGES = 8
"""Of a row group: a merge of hundreds of files holds one page of each column of each file."""
_PAGE_ROWS = 16_384
"""At most: larger pages are hardly faster, and smaller ones skip more."""
_LEAST_PAGE_ROWS = 2_048
"""At least: of a small row group, headers and statistics of many pages would take more than the values."""
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
            self._open(batch)
        assert self._writer is not None  # noqa: S101 - for the type checker: _open made it
        table = pa.Table.from_batches([batch])
        if not table.schema.equals(self._writer.schema):
            table = table.cast(self._writer.schema)
        self._writer.write_table(table, row_group_size=batch.num_rows)

    def close(self) -> int:
        """Write the footer; return the file's bytes."""
        if self._writer is None:
            self._open(pa.RecordBatch.from_pylist([], self._schema))
        assert self._writer is not None  # noqa: S101 - for the type checker: _open made it
        assert self._file is not None  # noqa: S101 - for the type checker: _open made it
        self._writer.close()
        self._file.close()
        metadata = pq.read_metadata(self.path)
        self.places = [(group, *extent(metadata.row_group(group))) for group in range(metadata.num_row_groups)]
        return self.path.stat().st_size

    def _open(self, first: pa.RecordBatch) -> None:
        """Begin the file whose first row group this is."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = pa.OSFile(str(self.path), mode="w")
        texts = {field.name for field in self._schema if columns.is_text(field.type)}
        numbers = [name for name in self._schema.names if name not in texts]
        page_rows = max(_LEAST_PAGE_ROWS, min(_PAGE_ROWS, -(-first.num_rows // _PAGES)))
        encodings = choose_encodings(first)
        self._writer = pq.ParquetWriter(
            self._file,
            first.schema,
            use_dictionary=list(encodings.dictionary),
            column_encoding=dict(encodings.others) or None,
            # Strings have statistics where pruning looks at them; elsewhere they cost more than they are worth.
            write_statistics=[*numbers, *(name for name in self._sort_key if name in texts)],
            write_page_index=True,
            max_rows_per_page=page_rows,
            write_batch_size=page_rows,
            store_schema=False,
            sorting_columns=[pq.SortingColumn(self._schema.names.index(name)) for name in self._sort_key],
            **CODEC,
        )
        self._writer.add_key_value_metadata({PAGE_ROWS_KEY: str(page_rows)})


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
