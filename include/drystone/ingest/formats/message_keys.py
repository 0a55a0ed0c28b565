"""The keys of messages in a SequenceFile: what Secor records beside the message itself.

Source: the seed "Secor", "SequenceFile"; Secor's `MessagePackSequenceFileReaderWriterFactory` for key 3.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pyarrow as pa

OFFSET, MESSAGE_KEY, TIMESTAMP = 1, 2, 3
"""The keys of the MessagePack map."""

MakeKeys = Callable[[pa.RecordBatch], list[bytes]]
"""Returns the key of each message of a batch."""

_encode = msgspec.msgpack.Encoder().encode


def offset_keys(batch: pa.RecordBatch) -> list[bytes]:
    """Return each message's offset as 8 bytes, big-endian."""
    return [offset.to_bytes(8, "big") for offset in batch.column("offset").to_pylist()]


def msgpack_keys(batch: pa.RecordBatch) -> list[bytes]:
    """Return for each message the MessagePack map {1: offset, 2: its key, 3: its timestamp in ms since the epoch}.

    A message without a key has no 2, one without a timestamp no 3; an empty key is a key.
    """
    offsets = batch.column("offset").to_pylist()
    found: list[dict[int, int | bytes]] = [{OFFSET: offset} for offset in offsets]
    # Kafka's times are whole milliseconds.
    times = batch.column("timestamp").cast(pa.timestamp("ms", "UTC"), safe=False).cast(pa.int64())
    named = ((MESSAGE_KEY, batch.column("key")), (TIMESTAMP, times))
    for name, column in named:
        for entry, value in zip(found, column.to_pylist(), strict=True):
            if value is not None:
                entry[name] = value
    return [_encode(entry) for entry in found]
