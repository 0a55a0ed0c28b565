"""Delimited text: the messages' bytes, each followed by a newline, plain or compressed. Nothing else is recorded.

Source: the seed "Secor", "Delimited Text File". What holds a newline itself cannot be told apart any more once it is
written, so it is refused. A message without a value (a tombstone) is an empty line.
"""

from __future__ import annotations

import gzip
from typing import IO

import pyarrow as pa
import pyarrow.compute as pc

from drystone.config.export import Compression
from drystone.errors import InputError

_GZIP_LEVEL = 6
_NEWLINE = b"\n"


class DelimitedWriter:
    """Writes one file; see `MessageWriter`. A gzip file says neither a name nor a time."""

    def __init__(self, file: IO[bytes], compression: Compression) -> None:
        """`file`: open to be written to; it is closed with the writer."""
        self._closing: list[IO[bytes] | pa.NativeFile] = [file]
        self._out: IO[bytes] | pa.NativeFile = file
        if compression == "gz":
            self._out = gzip.GzipFile("", "wb", _GZIP_LEVEL, file, mtime=0)
        elif compression == "zst":
            self._out = pa.CompressedOutputStream(pa.PythonFile(file, mode="w"), "zstd")
        if self._out is not file:
            self._closing.insert(0, self._out)

    def write(self, batch: pa.RecordBatch) -> None:
        """See `MessageWriter.write`."""
        values = batch.column("value")
        broken = pc.index(pc.fill_null(pc.match_substring(values, "\n"), False), True).as_py()  # noqa: FBT003 - scalars
        if broken >= 0:
            offset = batch.column("offset")[broken].as_py()
            msg = f"the message at offset {offset} has a newline in it, and delimited text ends messages with one."
            raise InputError(msg, "Export with a format of sequence_file; nothing of its file was uploaded.")
        if batch.num_rows:
            self._out.write(_NEWLINE.join(value or b"" for value in values.to_pylist()) + _NEWLINE)

    def close(self) -> None:
        """See `MessageWriter.close`."""
        for each in self._closing:
            each.close()
