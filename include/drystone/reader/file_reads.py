"""The visible chunk files of a stream, each with the filter that makes reading it exact: for DuckDB and the like."""

from __future__ import annotations

from dataclasses import dataclass

from drystone.bucket.protocol import Bucket
from drystone.engine.record import read_schema
from drystone.reader.view import BlockRead, View, block_reads, look
from drystone.rows import sql
from drystone.rows.arrow_schema import SOURCE_COLUMN


@dataclass(frozen=True, slots=True)
class FileRead:
    """A chunk file's address and size, and the SQL condition (DuckDB's dialect) that its rows must meet; "": none."""

    uri: str
    size: int
    block: str
    filter: str


def files(
    bucket: Bucket | str,
    stream: str,
    start: int | None = None,
    end: int | None = None,
    *,
    allow_incomplete: bool = False,
    generation: int | None = None,
) -> list[FileRead]:
    """Return every chunk file to read for rows with start <= time < end (ms since the epoch).

    Reading each with its filter, and without the column `__source`, gives every row exactly once, for deleteDelay from
    now. `generation`: whose rows, by default the newest's. Raises as `look` and `block_reads` do.
    """
    view = look(bucket, stream, generation=generation)
    known: dict[str, list[str]] = {}
    found: list[FileRead] = []
    for read in block_reads(view, start, end, allow_incomplete=allow_incomplete):
        fingerprint = read.meta.drystone.schema_fingerprint if read.meta.drystone is not None else ""
        if fingerprint not in known:
            schema = read_schema(view.bucket, stream, fingerprint)
            known[fingerprint] = [column.name for column in schema.columns]
        condition = condition_of(read, view, known[fingerprint], start, end)
        found += [FileRead(view.bucket.uri(file.key), file.size, read.ulid, condition) for file in read.files]
    return found


def condition_of(read: BlockRead, view: View, known: list[str], start: int | None, end: int | None) -> str:
    """Return the SQL condition, in DuckDB's dialect, that the rows of a block must meet; "" for none.

    `known`: the columns that the block has.
    """
    time = view.record.time_column
    parts = [] if read.whole_in_range else sql.between(time, start, end, "duckdb")
    if read.excluded:
        parts.append(sql.not_from(read.excluded, "duckdb"))
    columns = [*known, SOURCE_COLUMN]
    parts += [sql.kept_by(edit, time, columns, "duckdb") for edit in read.edits]
    return " AND ".join(f"({part})" for part in parts)
