"""Verifying a block's contents: every byte by its hash, every row by what meta.json and the index say of it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from drystone.block import keys as names
from drystone.block.folder import Folder
from drystone.block.meta import META_FILE, Extension, File, Meta
from drystone.bucket.files import open_input
from drystone.bucket.protocol import Bucket
from drystone.engine.decoding import decoding
from drystone.engine.findings import Finding, damage
from drystone.engine.record import read_schema
from drystone.errors import DamagedStreamError, InputError, InvariantError, UnreadableBlockError
from drystone.rows import columns, keys
from drystone.rows.arrow_schema import to_arrow
from drystone.rows.checksum import ContentChecksum
from drystone.rows.chunk_file import extent
from drystone.rows.index import IndexEntry
from drystone.rows.row_group import Facts, examine

_PIECE = 8 << 20


@dataclass
class _Rows:
    """What the rows of a block add up to, as they are read one row group after the other."""

    checksum: ContentChecksum = field(default_factory=ContentChecksum)
    sources: set[str] = field(default_factory=set)
    unknown: int = 0
    last: keys.Key | None = None


def verify_contents(
    bucket: Bucket, stream: str, folder: Folder, meta: Meta, extension: Extension, entries: Sequence[IndexEntry] | None
) -> list[Finding]:
    """Return what is wrong with the bytes and the rows of a block. `entries`: its index, None if it cannot be used.

    A file of another size or hash than meta.json's is not read any further, and then the block's sums are not compared.
    """
    found: list[Finding] = []
    present = [file for file in meta.thanos.files if _is_whole(folder, file)]
    wrong = {file.rel_path for file in present if _digest(bucket, stream, meta.ulid, file) != _expected(file)}
    found += [
        damage("hash", meta.ulid, path, f"{path} has another SHA-256 than meta.json says.") for path in sorted(wrong)
    ]
    chunks = [file for file in meta.thanos.files if file.rel_path.startswith("chunks/")]
    readable = [file for file in chunks if file in present and file.rel_path not in wrong]
    block = _Block(bucket, stream, meta, extension, entries, _schema(bucket, stream, extension, found, meta.ulid))
    rows = _Rows()
    for file in readable:
        found += block.verify_file(file, rows)
    if not found and len(readable) == len(chunks):
        found += _check_sums(meta, extension, rows)
    foreign = rows.sources - folder.sources
    if foreign:
        what = f"its rows name {len(foreign)} sources that meta.json does not: {', '.join(sorted(foreign)[:3])}."
        found.append(damage("sources", meta.ulid, "", what))
    return found


def _check_sums(meta: Meta, extension: Extension, rows: _Rows) -> Iterator[Finding]:
    if rows.checksum.rows != meta.stats.num_samples:
        what = f"its chunks hold {rows.checksum.rows:,} rows, and meta.json says {meta.stats.num_samples:,}."
        yield damage("rows", meta.ulid, "", what)
    elif extension.checksum and rows.checksum.hex != extension.checksum:
        what = f"its rows have content checksum {rows.checksum.hex}, and meta.json says {extension.checksum}."
        yield damage("checksum", meta.ulid, "", what)
    elif rows.unknown != extension.unknown_times:
        what = f"{rows.unknown:,} of its rows have no time, and meta.json says {extension.unknown_times:,}."
        yield damage("meta", meta.ulid, META_FILE, what)


@dataclass(frozen=True)
class _Block:
    """What is known of the block whose chunks are read."""

    bucket: Bucket
    stream: str
    meta: Meta
    extension: Extension
    entries: Sequence[IndexEntry] | None
    schema: pa.Schema | None

    def verify_file(self, file: File, rows: _Rows) -> list[Finding]:
        """Read a chunk, add its rows to `rows`, and return what is wrong with it."""
        where = f"block {self.meta.ulid}: {file.rel_path}"
        key = names.block(self.stream, self.meta.ulid, file.rel_path)
        try:
            with closing(open_input(self.bucket, key, file.size_bytes or 0)) as source:
                with decoding(where):
                    parquet = pq.ParquetFile(source)
                found = [*self._check_schema(parquet, file)]
                for ordinal in range(parquet.num_row_groups):
                    with decoding(f"{where}, row group {ordinal}"):
                        table = parquet.read_row_group(ordinal, use_threads=False)
                    place = extent(parquet.metadata.row_group(ordinal))
                    found += self._check_rows(table, file, ordinal, place, rows)
        except DamagedStreamError as error:
            return [damage("content", self.meta.ulid, file.rel_path, error.message)]
        indexed = self._indexed(file)
        if self.entries is not None and len(indexed) != parquet.num_row_groups:
            what = f"{file.rel_path} has {parquet.num_row_groups} row groups, and the index lists {len(indexed)}."
            found.append(damage("index", self.meta.ulid, file.rel_path, what))
        return found

    def _check_rows(
        self, table: pa.Table, file: File, ordinal: int, at: tuple[int, int], rows: _Rows
    ) -> Iterator[Finding]:
        batch = pa.RecordBatch.from_arrays([columns.whole(column) for column in table.columns], table.column_names)
        rows.checksum.update(batch)
        place = f"row group {ordinal} of {file.rel_path}"
        try:
            facts = examine(batch, self.extension.sort_key, self.extension.time_column)
        except (InvariantError, InputError) as error:
            yield damage("order", self.meta.ulid, file.rel_path, f"{place}: {error.message}")
            return
        rows.sources |= facts.sources
        rows.unknown += facts.unknown
        if rows.last is not None and keys.rank(facts.first) < keys.rank(rows.last):
            yield damage("order", self.meta.ulid, file.rel_path, f"{place} begins before the one before it ends.")
        rows.last = facts.last
        wrong = next((_differing(facts, at, each) for each in self._indexed(file) if each.ordinal == ordinal), [])
        if wrong:
            what = f"{place}: the index is wrong about {', '.join(wrong)}."
            yield damage("index", self.meta.ulid, file.rel_path, what)

    def _check_schema(self, parquet: pq.ParquetFile, file: File) -> Iterator[Finding]:
        own = parquet.schema_arrow.remove_metadata()
        if self.schema is not None and not own.equals(self.schema):
            names_of = sorted({column.name for column in (set(own) ^ set(self.schema)) or set(own)})
            what = f"{file.rel_path} has other columns than the block's schema: {', '.join(names_of)}."
            yield damage("schema", self.meta.ulid, file.rel_path, what)

    def _indexed(self, file: File) -> list[IndexEntry]:
        return [entry for entry in self.entries or () if entry.file == file.rel_path]


def _differing(facts: Facts, at: tuple[int, int], entry: IndexEntry) -> list[str]:
    """Return what the index says otherwise of a row group. `at`: where its bytes begin, and how many there are."""
    pairs = {
        "its place in the file": (at, (entry.offset, entry.length)),
        "its number of rows": (facts.rows, entry.rows),
        "its time range": ((facts.min_time, facts.max_time), (entry.min_time, entry.max_time)),
        "the least value of a sort column": (keys.rank(facts.mins), keys.rank(entry.mins)),
        "the greatest value of a sort column": (keys.rank(facts.maxs), keys.rank(entry.maxs)),
    }
    return [name for name, (one, other) in pairs.items() if one != other]


def _schema(bucket: Bucket, stream: str, extension: Extension, found: list[Finding], ulid: str) -> pa.Schema | None:
    """Return the schema that the block names; None, and a finding, if it cannot be read."""
    try:
        return to_arrow(read_schema(bucket, stream, extension.schema_fingerprint), with_source=True)
    except UnreadableBlockError as error:
        found.append(damage("schema", ulid, names.schema(stream, extension.schema_fingerprint), error.message))
        return None


def _is_whole(folder: Folder, file: File) -> bool:
    facts = folder.files.get(file.rel_path)
    return facts is not None and file.size_bytes in {None, facts.size}


def _expected(file: File) -> str | None:
    return file.hash.value if file.hash is not None and file.hash.hash_func == "SHA256" else None


def _digest(bucket: Bucket, stream: str, ulid: str, file: File) -> str | None:
    """Return the SHA-256 of a file in the bucket, None where meta.json gives none to compare it with."""
    if _expected(file) is None:
        return None
    digest, at = hashlib.sha256(), 0
    while piece := bucket.get_range(names.block(stream, ulid, file.rel_path), at, _PIECE):
        digest.update(piece)
        at += len(piece)
    return digest.hexdigest()
