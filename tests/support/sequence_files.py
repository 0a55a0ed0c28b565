"""A reader of SequenceFiles that shares nothing with the writer: every byte is accounted for."""

from __future__ import annotations

import struct

HEADER = b"SEQ\x06" + b"\x22org.apache.hadoop.io.BytesWritable" * 2 + b"\0\0" + b"\0\0\0\0"


def read_sequence_file(raw: bytes) -> tuple[list[tuple[bytes, bytes]], list[int]]:
    """Return the records of a file, and where its sync markers begin, the header's own left out."""
    assert raw.startswith(HEADER)
    position = len(HEADER) + 16
    sync = raw[len(HEADER) : position]
    records, marks = [], []
    while position < len(raw):
        (size,) = struct.unpack_from(">i", raw, position)
        if size == -1:
            assert raw[position + 4 : position + 20] == sync
            marks.append(position)
            position += 20
            continue
        (key_size, key_bytes) = struct.unpack_from(">ii", raw, position + 4)
        assert key_size == key_bytes + 4
        key_end = position + 8 + key_size
        (value_bytes,) = struct.unpack_from(">i", raw, key_end)
        end = key_end + 4 + value_bytes
        assert size == key_size + 4 + value_bytes
        assert end <= len(raw)
        records.append((raw[position + 12 : key_end], raw[key_end + 4 : end]))
        position = end
    return records, marks
