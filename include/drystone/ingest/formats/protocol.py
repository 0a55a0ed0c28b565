"""What writes messages into one file of a format, and what it needs of them."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

COLUMNS = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", pa.timestamp("us", "UTC")),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
    ]
)
"""The columns of a batch that writers look at; it may have more."""


class MessageWriter(Protocol):
    """Writes messages into one file, batch by batch, and holds no more than a batch of them.

    The same messages in the same order give the same bytes, however they are cut into batches.
    """

    def write(self, batch: pa.RecordBatch) -> None:
        """Append messages, in the order of their offsets. Raises InputError for one that the format cannot hold.

        Nothing of the file may be used then.
        """
        ...

    def close(self) -> None:
        """Finish the file and close it."""
        ...
