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

from drystone.engine import columns
from drystone.engine.conform import conform
from drystone.errors import InputError

File: TypeAlias = str | Path | pa.NativeFile | IO[bytes]

_DICTIONARIES = frozenset({"RLE_DICTIONARY", "PLAIN_DICTIONARY"})
_PAGE = 1 << 20
"""Bytes of a data page, as writers cut them: what a reader of a column holds uncompressed, besides its dictionary."""
_FIXED = 64 << 10
"""Bytes that an open file takes besides its pages: buffers, metadata, Python objects."""


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
    if metadata.num_columns != len(schema):
        raise InputError(f"{name} has nested columns.", "Blocks hold plain columns only.")
    return SortedFile(name, open_file, metadata, schema, _row_bytes(metadata, schema), _open_bytes(metadata))


def open_sorted(
    file: SortedFile,
    schema: pa.Schema | None = None,
    *,
    batch_rows: int = 8192,
    row_groups: Sequence[int] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield the file's rows in order, at most `batch_rows` at a time, in the given schema (default: the file's own).

    The file is opened at the first batch, and closed after the last one or when the iterator is. One row group is read
    at a time, its compressed bytes at once (neighbouring columns with one request), decoded as batches are asked for.
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
        for group in groups:
            if parquet is None:
                source = stack.enter_context(contextlib.closing(_source(file.open())))
                parquet = _open(source, file)
            try:
                batches = parquet.iter_batches(batch_rows, [group], names, use_threads=False)
                for batch in batches:
                    yield conform(batch, wanted, file.name)
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
        pre_buffer=True,
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
            total += kind.bit_width // 8
        else:
            stored = sum(
                metadata.row_group(group).column(position).total_uncompressed_size
                for group in range(metadata.num_row_groups)
            )
            total += 4 + -(-stored // max(1, metadata.num_rows))
    return total


def _open_bytes(metadata: pq.FileMetaData) -> int:
    """Return how many bytes a reader holds for its largest row group: compressed chunks, pages, and dictionaries."""
    largest = 0
    for group in range(metadata.num_row_groups):
        found = metadata.row_group(group)
        size = 0
        for position in range(found.num_columns):
            chunk = found.column(position)
            size += chunk.total_compressed_size + min(chunk.total_uncompressed_size, _PAGE)
        largest = max(largest, size)
    return largest + _FIXED
