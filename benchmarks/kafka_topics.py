"""Topics full of flights as JSON, made in seconds: the flights again and again, their times going on and on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import numpy as np

from benchmarks import data
from drystone.testing.kafka import KafkaBroker, send

BEGIN = np.datetime64("2026-01-01T00:00:00", "us")
DAYS = 10
"""The messages of a topic go over so many days, evenly."""
COLUMNS = {
    "event_time": "timestamp", "carrier": "string", "flight": "int32", "tailnum": "string", "origin": "string",
    "dest": "string", "year": "int16", "month": "int8", "day": "int8", "dep_time": "int16", "sched_dep_time": "int16",
    "dep_delay": "int16", "arr_time": "int16", "sched_arr_time": "int16", "arr_delay": "int16", "air_time": "int16",
    "distance": "int16", "hour": "int8", "minute": "int8",
}  # fmt: skip
"""What a message tells, as types of Drystone's configuration."""
_PORTION = 50_000


@cache
def _flights() -> list[tuple[bytes | None, bytes]]:
    """Return each flight's key, and its message less the event time, which stands at the beginning."""
    sys.path.append(str(data.DEMO))
    import flights  # noqa: PLC0415 -- the demo's, found by the line above

    rows = flights.load().select([name for name in COLUMNS if name != "event_time"]).to_pylist()
    return [(row["tailnum"].encode() if row["tailnum"] else None, msgspec.json.encode(row)[1:]) for row in rows]


def fill(broker: KafkaBroker, topic: str, count: int, partitions: int) -> int:
    """Make a topic of so many messages, and return the bytes of their values; partitions get the same number."""
    broker.create_topic(topic, partitions)
    producer = broker.producer(linger_ms=50, batch_size=1 << 20, queue_buffering_max_messages=200_000)
    size = 0
    for start in range(0, count, _PORTION):
        portion = list(_messages(start, min(count, start + _PORTION), count, partitions))
        size += sum(len(message["value"]) for message in portion)
        send(producer, topic, portion)
    return size


def _messages(start: int, end: int, count: int, partitions: int) -> Iterator[dict[str, Any]]:
    flights = _flights()
    step = DAYS * 86_400_000_000 / count
    micros = (np.arange(start, end) * step).astype(np.int64)
    texts = np.datetime_as_string(BEGIN + micros.astype("timedelta64[us]"), unit="us").tolist()
    first = int(BEGIN.astype(np.int64))
    for number, text, moment in zip(range(start, end), texts, micros.tolist(), strict=True):
        key, rest = flights[number % len(flights)]
        yield {
            "key": key,
            "value": b'{"event_time":"%bZ",%b' % (text.encode(), rest),
            "partition": number % partitions,
            "timestamp": (first + moment) // 1000,
        }
