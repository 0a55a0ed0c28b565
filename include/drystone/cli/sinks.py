"""Where the rows of a read go: a table on the terminal, or a file or stream of CSV, JSON lines or Parquet."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from drystone.cli import output
from drystone.errors import UsageError

Format = Literal["table", "csv", "jsonl", "parquet"]


class Sink(Protocol):
    """Takes batches of one schema."""

    def write(self, batch: pa.RecordBatch) -> None:
        """Take some more rows."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...


@contextlib.contextmanager
def open_sink(how: Format, path: Path | None) -> Iterator[Sink]:
    """Open a sink to a file, or to stdout. A regular file appears whole at the end, or not at all."""
    if how == "table":
        if path is not None:
            raise UsageError("--output needs a format.", "Give --format csv, jsonl or parquet.")
        with contextlib.closing(_Table()) as table:
            yield table
        return
    if path is None and how == "parquet" and sys.stdout.isatty():
        raise UsageError("Parquet is not for a terminal.", "Give --output FILE.")
    with _open(path) as file, contextlib.closing(_SINKS[how](file)) as sink:
        yield sink


@contextlib.contextmanager
def _open(path: Path | None) -> Iterator[IO[bytes]]:
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    # A device or a pipe is written to as it is: it has no place to be prepared in.
    prepared = path if path.exists() and not path.is_file() else path.with_name(f"{path.name}.partial")
    try:
        file = prepared.open("wb")
    except OSError as error:
        raise UsageError(f"cannot write {prepared}: {error.strerror}.", "Give another --output.") from None
    try:
        with file:
            yield file
        if prepared != path:
            prepared.replace(path)
    except BaseException:
        if prepared != path:
            prepared.unlink(missing_ok=True)
        raise


class _Table:
    """Keeps the rows, and prints them at the end."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def write(self, batch: pa.RecordBatch) -> None:
        self._batches.append(batch)

    def close(self) -> None:
        if self._batches:
            table = pa.Table.from_batches(self._batches)
            numbers = [pa.types.is_integer(field.type) or pa.types.is_floating(field.type) for field in table.schema]
            names = [f"{'>' if number else ''}{name}" for name, number in zip(table.column_names, numbers, strict=True)]
            # As text: a flight's number is not 1,545.
            output.write_table(names, ([_text(value) for value in row.values()] for row in table.to_pylist()))


class _Csv:
    """CSV with a header line; a null is an empty field, an empty string a quoted one."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._writer: pa.csv.CSVWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = pa.csv.CSVWriter(self._file, batch.schema)
        self._writer.write_batch(batch)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


class _Jsonl:
    """One object a line; times are ISO-8601, decimals text, bytes hexadecimal, and what is no number null."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file

    def write(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self._file.write(json.dumps({name: plain(value) for name, value in row.items()}).encode() + b"\n")

    def close(self) -> None:
        self._file.flush()


class _Parquet:
    """One Parquet file."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._writer: pq.ParquetWriter | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        if self._writer is None:
            self._writer = pq.ParquetWriter(self._file, batch.schema, compression="zstd")
        self._writer.write_batch(batch)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


_SINKS: dict[str, type[_Csv | _Jsonl | _Parquet]] = {"csv": _Csv, "jsonl": _Jsonl, "parquet": _Parquet}


def _text(value: Any) -> str:
    return "" if value is None else str(plain(value))


def plain(value: Any) -> Any:
    """Return a row's value as JSON has it: times in ISO-8601, bytes in hexadecimal, null for what is no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, str | int | float | bool | None) else str(value)
