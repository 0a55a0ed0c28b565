"""A row group's columns from a store, with few requests, by the thread that asks for them."""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HOLE = 256 << 10
"""Bytes between two columns that are fetched too, rather than to ask twice."""


def column_ranges(group: pq.RowGroupMetaData, names: Collection[str]) -> list[tuple[int, int]]:
    """Return where the pages of these columns are in the file: (start, end) in bytes, in order, close ones as one."""
    found = []
    for position in range(group.num_columns):
        chunk = group.column(position)
        if chunk.path_in_schema in names:
            start = chunk.data_page_offset
            if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
                start = chunk.dictionary_page_offset
            found.append((start, start + chunk.total_compressed_size))
    return _joined(sorted(found))


def open_parquet(source: pa.NativeFile) -> tuple[pq.ParquetFile, Fetched | None]:
    """Return an open file as Parquet, for `iter_batches`; its footer is read."""
    if is_local(source):
        return pq.ParquetFile(source), None
    fetched = Fetched(source)
    return pq.ParquetFile(pa.PythonFile(fetched, mode="r")), fetched


def is_local(source: pa.NativeFile) -> bool:
    """Tell whether a file is read in place, where a read costs no request."""
    return isinstance(source, pa.OSFile | pa.MemoryMappedFile)


def iter_batches(
    parquet: pq.ParquetFile, fetched: Fetched | None, columns: Sequence[str], groups: Sequence[int] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of some row groups (None: all), of a local file with threads, of any other with few requests.

    Arrow's own threads do not touch what is not local: one that still calls Python when the program ends aborts it.
    """
    if fetched is None:
        yield from parquet.iter_batches(columns=columns, row_groups=groups)
        return
    for group in range(parquet.num_row_groups) if groups is None else groups:
        fetched.fetch(column_ranges(parquet.metadata.row_group(group), columns))
        yield from parquet.iter_batches(columns=columns, row_groups=[group], use_threads=False)


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    joined: list[tuple[int, int]] = []
    for start, end in ranges:
        if joined and start - joined[-1][1] <= HOLE:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return joined


class Fetched(io.RawIOBase):
    """A file to read from, of which some ranges are in memory: those of the last `fetch`. Not for several threads.

    What lies outside of them is read from the file itself. Closing it leaves the file open.
    """

    def __init__(self, file: pa.NativeFile) -> None:
        """`file`: open and seekable; nobody else may use it meanwhile."""
        super().__init__()
        self._file = file
        self._size = file.size()
        self._position = 0
        self._held: list[tuple[int, memoryview]] = []

    def fetch(self, ranges: Iterable[tuple[int, int]]) -> None:
        """Read these ranges, (start, end) in bytes, one request each, in place of what was held before."""
        self._held = []  # First: both would be in memory at once.
        for start, end in ranges:
            self._file.seek(start)
            self._held.append((start, memoryview(self._file.read_buffer(end - start)).cast("B")))

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to `offset` from the start, from here or from the end; return the new offset from the start."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}
        self._position = base[whence] + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes | memoryview:
        """Return the next `size` bytes, fewer only at the end; all that are left for -1 or None. Held ones uncopied."""
        rest = max(0, self._size - self._position)
        length = rest if size is None or size < 0 else min(size, rest)
        start = self._position
        self._position += length
        for held_from, held in self._held:
            if held_from <= start and start + length <= held_from + len(held):
                return held[start - held_from : start - held_from + length]
        self._file.seek(start)
        data: bytes = self._file.read(length)
        return data

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill `buffer` with the next bytes, short only at the end; return how many."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Forget what is held; twice is fine."""
        self._held = []
        super().close()
