"""Streaming reads of sorted Parquet files: a bounded part of one row group is in memory at a time.

Source: the design, "Compaction: executing".
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from drystone.errors import InputError
from drystone.rows import columns
from drystone.rows.conform import conform, fits
from drystone.rows.fetched import Fetched, column_ranges, is_local

File: TypeAlias = str | Path | pa.NativeFile | IO[bytes]

_DICTIONARIES = frozenset({"RLE_DICTIONARY", "PLAIN_DICTIONARY"})
PAGE_ROWS_KEY = b"drystone.page_rows"
"""Where `ChunkFile` says in a footer how many rows a data page has at most."""
_PAGE_ROWS = 20_000
"""As most other writers cut pages."""
_BUFFER = 16 << 10
_DICTIONARY = 32
"""Times its compressed size is about what a dictionary of strings takes: values, and a table to look them up in."""
_NUMBERS = 4
"""The same for a dictionary of numbers, which needs no table."""
_FIXED = 1 << 20
"""Bytes that an open file takes besides its columns: metadata, objects, the decompressor's state."""


@dataclass(frozen=True, slots=True)
class SortedFile:
    """A sorted Parquet file that can be opened when its turn comes. Make it with `describe`.

    `open` returns a new file object each time. `row_bytes`: what a row takes in Arrow; `open_bytes`: what an open
    reader holds besides the batches that it hands out (both estimates, from the footer).
    """

    name: str
    open: Callable[[], File]
    metadata: pq.FileMetaData
    schema: pa.Schema
    row_bytes: int
    open_bytes: int

    @property
    def rows(self) -> int:
        """Rows in the file."""
        return int(self.metadata.num_rows)


def describe(name: str, open_file: Callable[[], File]) -> SortedFile:
    """Return the file with what its footer tells; nothing else is read.

    Raises InputError, naming the file, if it is no Parquet file; an error of the store comes through.
    """
    with contextlib.ExitStack() as stack:
        try:
            source = stack.enter_context(contextlib.closing(_source(open_file())))
            parquet = pq.ParquetFile(source, pre_buffer=False)
        except (pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # The operating system's. Arrow's own, for a damaged footer, has no number.
            raise InputError(f"{name} is no Parquet file: {' '.join(str(error).split())}.") from None
        metadata, schema = parquet.metadata, parquet.schema_arrow.remove_metadata()
        local = is_local(source)
    if metadata.num_columns != len(schema):
        raise InputError(f"{name} has nested columns.", "Blocks hold plain columns only.")
    return SortedFile(
        name, open_file, metadata, schema, _row_bytes(metadata, schema), _open_bytes(metadata, local=local)
    )


def open_sorted(
    file: SortedFile,
    schema: pa.Schema | None = None,
    *,
    batch_rows: int = 8192,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows in order, at most `batch_rows` at a time, in the given schema (default: the file's own).

    The file is opened at the first batch, and closed after the last one or when the iterator is. One row group is read
    at a time: of a local file page by page, of any other its compressed bytes at once (neighbouring columns with one
    request); they are decoded as batches are asked for.
    Strings and `__source` come as dictionary arrays where the file has dictionaries. `row_groups`: which to read, by
    default all. Raises InputError as `conform` does, and for a file whose content is damaged.
    """
    wanted = file.schema if schema is None else schema
    names = [name for name in wanted.names if name in file.schema.names]
    groups = range(file.metadata.num_row_groups) if row_groups is None else row_groups
    if not names:
        raise InputError(f"{file.name} has none of the columns {', '.join(wanted.names)}.")
    with contextlib.ExitStack() as stack:
        parquet: pq.ParquetFile | None = None
        own: pa.Schema | None = None
        for group in groups:
            if parquet is None:
                source = stack.enter_context(contextlib.closing(_source(file.open())))
                fetched = None if is_local(source) else stack.enter_context(contextlib.closing(Fetched(source)))
                parquet = _open(source if fetched is None else pa.PythonFile(fetched, mode="r"), file)
            try:
                if fetched is not None:
                    fetched.fetch(column_ranges(file.metadata.row_group(group), names))
                batches = parquet.iter_batches(batch_rows, [group], names, use_threads=False)
                for batch in batches:
                    if own is None or not own.equals(batch.schema):
                        own = batch.schema
                        ready = fits(own, wanted)
                    yield batch if ready else conform(batch, wanted, file.name)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError) as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise
                # Arrow reports damaged pages as an OSError without a number: nothing is wrong with the disk.
                raise InputError(f"{file.name}, row group {group}: {error}.", "Verify its block.") from None


def _open(source: pa.NativeFile, file: SortedFile) -> pq.ParquetFile:
    return pq.ParquetFile(
        source,
        metadata=file.metadata,
        read_dictionary=_dictionary_columns(file.metadata, file.schema),
        # A local file is read page by page. From a store, each read is a request: `Fetched` has a row group's columns
        # at once. Arrow would fetch them with threads of its own (`pre_buffer`), which may still be calling Python when
        # the program ends, and abort it.
        pre_buffer=False,
        buffer_size=_BUFFER if is_local(source) else 0,
    )


def _source(file: File) -> pa.NativeFile:
    if isinstance(file, str | Path):
        return pa.OSFile(str(file), mode="r")
    return file if isinstance(file, pa.NativeFile) else pa.PythonFile(file, mode="r")


def _dictionary_columns(metadata: pq.FileMetaData, schema: pa.Schema) -> list[str]:
    """Return the string columns that have a dictionary in every row group."""
    found = []
    for position, field in enumerate(schema):
        if columns.is_text(field.type) and all(
            _DICTIONARIES.intersection(metadata.row_group(group).column(position).encodings)
            for group in range(metadata.num_row_groups)
        ):
            found.append(field.name)
    return found


def _row_bytes(metadata: pq.FileMetaData, schema: pa.Schema) -> int:
    """Return how many bytes a row takes as Arrow arrays, strings as dictionary codes or with their own bytes."""
    coded = set(_dictionary_columns(metadata, schema))
    total = 1
    for position, field in enumerate(schema):
        kind = columns.plain_type(field.type)
        if field.name in coded:
            total += 4
        elif columns.is_fixed(kind) or pa.types.is_decimal(kind):
            # Files know no smaller integers than of four bytes; readers decode those first.
            total += max(4, kind.bit_width // 8)
        else:
            stored = sum(
                metadata.row_group(group).column(position).total_uncompressed_size
                for group in range(metadata.num_row_groups)
            )
            total += 4 + -(-stored // max(1, metadata.num_rows))
    return total


def _open_bytes(metadata: pq.FileMetaData, *, local: bool) -> int:
    """Return about how many bytes a reader holds for its largest row group, besides batches."""
    page_rows = int((metadata.metadata or {}).get(PAGE_ROWS_KEY, _PAGE_ROWS))
    largest = 0
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        share = min(1.0, page_rows / max(1, found.num_rows))
        size = 0.0
        for position in range(found.num_columns):
            chunk = found.column(position)
            compressed = share * chunk.total_compressed_size + _BUFFER if local else chunk.total_compressed_size
            size += share * chunk.total_uncompressed_size + compressed
            if chunk.has_dictionary_page:
                times = _DICTIONARY if chunk.physical_type == "BYTE_ARRAY" else _NUMBERS
                size += times * (chunk.data_page_offset - chunk.dictionary_page_offset) + 2 * _BUFFER
        largest = max(largest, int(size))
    return largest + _FIXED
