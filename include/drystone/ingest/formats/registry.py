"""Which formats there are, and their writers."""

from __future__ import annotations

from pathlib import Path

from drystone.config.export import Compression, Format
from drystone.ingest.formats.delimited import DelimitedWriter
from drystone.ingest.formats.message_keys import msgpack_keys, offset_keys
from drystone.ingest.formats.protocol import MessageWriter
from drystone.ingest.formats.sequence_file import SequenceFileWriter

_KEYS = {"sequence_file": offset_keys, "sequence_file_msgpack": msgpack_keys}
_SUFFIX = {"none": "", "gz": ".gz", "zst": ".zst"}


def extension(kind: Format, compression: Compression) -> str:
    """Return how the names of such files end."""
    return f".txt{_SUFFIX[compression]}" if kind == "text" else ".seq"


def open_writer(kind: Format, compression: Compression, path: Path, sync: bytes) -> MessageWriter:
    """Return the writer of a new file at `path`. `sync`: see `SequenceFileWriter`; only text is compressed."""
    file = path.open("wb")
    if kind == "text":
        return DelimitedWriter(file, compression)
    return SequenceFileWriter(file, _KEYS[kind], sync)
