"""Sorted rows to the chunk files and the index of one block, in a local folder.

Source: the design, "Blocks: layout". Memory: a few row groups, whatever the size of the block.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from drystone.block.meta import INDEX_FILE
from drystone.errors import InputError, InvariantError
from drystone.rows import columns, keys
from drystone.rows.checksum import ContentChecksum
from drystone.rows.chunk_file import ChunkFile
from drystone.rows.index import IndexEntry, write_index
from drystone.rows.row_group import Facts, examine

MAX_CHUNK_BYTES = 512 << 20
ROW_GROUP_BYTES = 128 << 20
_FOOTER = 1 << 20
_READ = 1 << 20


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """One file of a built block: its path inside the block's folder, its bytes, its digest in hexadecimal."""

    rel_path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Built:
    """A block's files in `folder`, index included, and what its meta.json says of them.

    Times are ms since the epoch, [min_time, max_time), of the rows that have a time; None where no row has. `unknown`:
    how many rows have none. `sources`: ULIDs of the rows that are there.
    """

    folder: Path
    files: tuple[BuiltFile, ...]
    entries: tuple[IndexEntry, ...]
    rows: int
    unknown: int
    min_time: int | None
    max_time: int | None
    checksum: str
    sources: frozenset[str]

    @property
    def row_groups(self) -> int:
        """How many row groups the chunks have together."""
        return len(self.entries)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def time_range(self, within: tuple[int, int]) -> tuple[int, int]:
        """Return what meta.json says of the rows' times: [first, last) in ms.

        `within`: what rows without a time belong to: their time chunk, or the range of the blocks that they come from.
        With such a row the block has all of it, for the row must not expire before that has passed. Without rows the
        range is empty.
        """
        low, high = within
        if self.min_time is None or self.max_time is None:
            return low, high if self.unknown else low
        if self.unknown:
            return min(low, self.min_time), max(high, self.max_time)
        return self.min_time, self.max_time


class ChunkWriter:
    """Takes the rows of one block in order, in tables of any size, and writes them in row groups of equal size.

    A row group ends before its number of rows where it would take more than `row_group_bytes` in memory, as far as that
    can be told without a look at dictionaries; a larger row is one of its own.
    Either `close` returns a whole block, or an error was raised and the folder holds nothing of use.
    """

    def __init__(
        self,
        folder: Path,
        schema: pa.Schema,
        sort_key: Sequence[str],
        time_column: str,
        row_group_rows: int = 131_072,
        max_chunk_bytes: int = MAX_CHUNK_BYTES,
        *,
        row_group_bytes: int = ROW_GROUP_BYTES,
    ) -> None:
        """`folder`: where `chunks/` and `index` are made. `schema`: plain types, with `__source` if there is one."""
        self._folder = folder
        self._schema = schema
        self._sort_key = tuple(sort_key)
        self._time_column = time_column
        self._rows_wanted = row_group_rows
        self._max_bytes = max_chunk_bytes
        self._bytes_wanted = row_group_bytes
        self._waiting: list[pa.Table] = []
        self._rows_waiting = 0
        self._bytes_waiting = 0
        self._chunk: ChunkFile | None = None
        self._chunks: list[ChunkFile] = []
        self._facts: list[Facts] = []
        self._checksum = ContentChecksum()
        self._last: keys.Key | None = None
        for name in self._sort_key:
            keys.check_sortable(name, schema.field(name).type)

    def write(self, table: pa.Table) -> None:
        """Take more rows, which come after all before. String columns may be dictionary arrays.

        Raises InvariantError if the rows are not in the order of the sort key.
        """
        start = 0
        while start < table.num_rows:
            part = table.slice(start, self._rows_wanted - self._rows_waiting)
            while (size := columns.size(part)) > self._bytes_wanted - self._bytes_waiting and part.num_rows > 1:
                part = part.slice(0, part.num_rows // 2)
            if self._rows_waiting and size > self._bytes_wanted - self._bytes_waiting:
                self._flush()
                continue
            start += part.num_rows
            self._waiting.append(part)
            self._rows_waiting += part.num_rows
            self._bytes_waiting += size
            if self._rows_waiting == self._rows_wanted:
                self._flush()

    def close(self) -> Built:
        """Write what is left, footers and index; return what was built. Without rows there is one empty chunk."""
        if self._rows_waiting:
            self._flush()
        if self._chunk is None:
            self._roll()
        self._finish_chunk()
        entries = self._entries()
        index = self._folder / INDEX_FILE
        write_index(index, entries, self._schema, self._sort_key)
        files = [(chunk.rel_path, chunk.path) for chunk in self._chunks]
        built = [_file(rel_path, path) for rel_path, path in [*files, (INDEX_FILE, index)]]
        return Built(
            self._folder,
            tuple(built),
            tuple(entries),
            self._checksum.rows,
            sum(facts.unknown for facts in self._facts),
            min((facts.min_time for facts in self._facts if facts.min_time is not None), default=None),
            max((facts.max_time for facts in self._facts if facts.max_time is not None), default=None),
            self._checksum.hex,
            frozenset().union(*(facts.sources for facts in self._facts)),
        )

    def _flush(self) -> None:
        """Write the waiting rows as one row group."""
        tables, self._waiting, self._rows_waiting, self._bytes_waiting = self._waiting, [], 0, 0
        group = _one_batch(tables, self._schema)
        facts = examine(group, self._sort_key, self._time_column)
        if self._last is not None and keys.rank(facts.first) < keys.rank(self._last):
            raise InvariantError(f"rows came out of the order of {', '.join(self._sort_key)}.", "Nothing was uploaded.")
        self._last = facts.last
        self._checksum.update(group)
        if self._chunk is None or self._chunk.written + group.nbytes + _FOOTER > self._max_bytes:
            self._finish_chunk()
            self._roll()
        assert self._chunk is not None  # noqa: S101 - for the type checker: _roll made it
        self._chunk.write(group)
        self._facts.append(facts)

    def _roll(self) -> None:
        self._chunk = ChunkFile(self._folder, len(self._chunks) + 1, self._schema, self._sort_key)

    def _finish_chunk(self) -> None:
        if self._chunk is None:
            return
        size = self._chunk.close()
        if size > self._max_bytes:
            rows = self._facts[-1].rows
            msg = f"a row group of {rows} rows takes {size:,} bytes; a chunk may have {self._max_bytes:,}."
            raise InputError(msg, "Lower row_group_rows.")
        self._chunks.append(self._chunk)
        self._chunk = None

    def _entries(self) -> list[IndexEntry]:
        places = [(chunk.rel_path, *place) for chunk in self._chunks for place in chunk.places]
        return [
            IndexEntry(*place, facts.rows, facts.min_time, facts.max_time, facts.mins, facts.maxs)
            for place, facts in zip(places, self._facts, strict=True)
        ]


def _one_batch(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.RecordBatch:
    """Return the rows of all tables as one batch, its columns those of the schema."""
    arrays = []
    for field in schema:
        chunks = [chunk for table in tables for chunk in table.column(field.name).chunks]
        if len({chunk.type for chunk in chunks}) > 1:
            chunks = [chunk.cast(columns.plain_type(chunk.type)) for chunk in chunks]
        arrays.append(columns.compact(columns.whole(pa.chunked_array(chunks))))
    return pa.RecordBatch.from_arrays(arrays, names=schema.names)


def _file(rel_path: str, path: Path) -> BuiltFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return BuiltFile(rel_path, path.stat().st_size, digest)
