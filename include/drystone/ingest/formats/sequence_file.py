"""Hadoop's SequenceFile, version 6, uncompressed, with BytesWritable for key and value.

The bytes are those of Hadoop's own writer, whatever its sync marker: `org.apache.hadoop.io.SequenceFile`. A message
without a value (a tombstone) has an empty one there.
"""

from __future__ import annotations

import hashlib
import struct
from typing import IO

import pyarrow as pa

from drystone.errors import InputError
from drystone.ingest.formats.message_keys import MakeKeys

_CLASS = b"org.apache.hadoop.io.BytesWritable"
_VERSION = 6
_SYNC_BYTES = 16
_SYNC_INTERVAL = 5 * 1024 * (4 + _SYNC_BYTES)
"""Bytes between two sync markers, at least: as Hadoop 3 has it."""
_ESCAPE = struct.pack(">i", -1)
_RECORD = struct.Struct(">iii")
_LENGTH = struct.Struct(">i")
_MAX_RECORD = (1 << 31) - 1
_BUFFER = 1 << 20


def sync_marker(*names: str) -> bytes:
    """Return 16 bytes that stand for these names: a file's sync marker, which no message in it may hold by chance.

    One of the names must be nothing that a sender of messages can know: then none can hold it on purpose either.
    """
    return hashlib.sha256("\0".join(names).encode()).digest()[:_SYNC_BYTES]


class SequenceFileWriter:
    """Writes one file; see `MessageWriter`. `sync`: 16 bytes, of which readers that begin in the middle take hold."""

    def __init__(self, file: IO[bytes], make_keys: MakeKeys, sync: bytes) -> None:
        """`file`: open to be written to; it is closed with the writer."""
        self._file = file
        self._make_keys = make_keys
        self._sync = sync
        name = bytes([len(_CLASS)]) + _CLASS
        plain = b"\0\0"  # Neither records nor blocks are compressed.
        header = b"SEQ" + bytes([_VERSION]) + name + name + plain + _LENGTH.pack(0) + sync
        file.write(header)
        self._position = len(header)
        self._synced = 0

    def write(self, batch: pa.RecordBatch) -> None:
        """See `MessageWriter.write`."""
        values = batch.column("value").to_pylist()
        position, begun = self._position, self._position
        parts: list[bytes] = []
        for key, value in zip(self._make_keys(batch), values, strict=True):
            if position >= self._synced + _SYNC_INTERVAL:
                parts += (_ESCAPE, self._sync)
                self._synced = position = position + _LENGTH.size + _SYNC_BYTES
            content = value or b""
            size = len(key) + len(content) + 2 * _LENGTH.size
            if size > _MAX_RECORD:
                msg = f"a message of {len(content):,} bytes is too large for a SequenceFile."
                raise InputError(msg, "Its records end at 2 GiB; nothing of the file was uploaded.")
            parts += (
                _RECORD.pack(size, len(key) + _LENGTH.size, len(key)),
                key,
                _LENGTH.pack(len(content)),
                content,
            )
            position += _LENGTH.size * 2 + size
            if position - begun >= _BUFFER:
                self._flush(parts)
                begun = position
        self._flush(parts)
        self._position = position

    def close(self) -> None:
        """See `MessageWriter.close`."""
        self._file.close()

    def _flush(self, parts: list[bytes]) -> None:
        self._file.write(b"".join(parts))
        parts.clear()
