"""Messages of Kafka as Arrow: what parsers and the builder of blocks are given, wherever they were read."""

from __future__ import annotations

import pyarrow as pa

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
"""A message's headers, in their order; a name may stand twice, a value may be null."""

MESSAGES = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", HEADERS),
    ]
)
"""Messages of one partition, in the order of their offsets; `timestamp` is null where Kafka has none (its -1)."""
