"""Messages as rows: verbatim for a backup, with the error for a dead letter, and what parsed rows get of them.

Source: the design, "Ingest: two groups".
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.config.ingest import MESSAGE_TIME, POSITION, RAW_TIME
from drystone.ingest.kafka.headers import to_text

Times = tuple[int, int]
"""The first and the last moment (ms) that a message can have been written at."""


def raw_rows(messages: pa.RecordBatch, times: Times) -> pa.Table:
    """Return every message as a row of a backup stream, its time as `known_times` has it and as Kafka has it."""
    written = messages.column("timestamp")
    return pa.table(
        {
            **places(messages),
            MESSAGE_TIME: known_times(written, times),
            RAW_TIME: written.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()),
            "key": messages.column("key"),
            "value": messages.column("value"),
            "headers": to_text(messages.column("headers")),
        }
    )


def dead_rows(messages: pa.RecordBatch, errors: Sequence[tuple[int, str]], times: Times) -> pa.Table:
    """Return the messages that gave no row as rows of a dead-letter stream. `errors`: position and reason of each."""
    ordered = sorted(errors)
    bad = messages.take(pa.array([position for position, _ in ordered], pa.int64()))
    rows = raw_rows(bad, times)
    reasons = pa.array([reason for _, reason in ordered], pa.string())
    return rows.add_column(rows.schema.get_field_index("key"), "error", reasons)


def places(messages: pa.RecordBatch, positions: pa.Int64Array | None = None) -> dict[str, pa.Array]:
    """Return where these messages lie (all of one partition), or those at `positions`, column by column."""
    partition, offset = (messages.column(name) for name in ("partition", "offset"))
    if positions is not None:
        partition, offset = partition.take(positions), offset.take(positions)
    topic = messages.column("topic").slice(0, 1)
    codes = pa.array(np.zeros(len(offset), np.int32))
    return dict(zip(POSITION, (pa.DictionaryArray.from_arrays(codes, topic), partition, offset), strict=True))


def known_times(timestamps: pa.TimestampArray, times: Times) -> pa.TimestampArray:
    """Return the moments that lie within `times`, and null for the others.

    A producer sets what it likes: a row of 1970 would expire at once, one of the year 20000 never.
    """
    low, high = (moment * 1000 for moment in times)
    ticks = timestamps.cast(pa.int64())
    plausible = pc.and_(pc.greater_equal(ticks, low), pc.less_equal(ticks, high))
    return pc.if_else(plausible, timestamps, pa.scalar(None, timestamps.type))
