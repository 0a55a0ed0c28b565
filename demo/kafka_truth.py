"""What the streams must hold, computed from the producers' ledger and from the flights, without a parser or a block.

The ledger is held to what a consumer of committed messages reads from the broker.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from flights import Truth
from kafka_feed import Feed
from kafka_produce import Landed

from drystone.ingest.kafka.broker import Offsets, Partition
from drystone.rows.checksum import ContentChecksum
from drystone.testing.kafka import KafkaBroker

_TIMEOUT = 120.0
_POLL = 0.5
_HEADERS = '[["source","bnljZmxpZ2h0czEz"]]'


def backup_rows(landed: Sequence[Landed]) -> Truth:
    """Return what the backup stream must hold: every committed message as it is."""
    return _truth(_raw(landed))


def dead_rows(landed: Sequence[Landed]) -> Truth:
    """Return what the dead-letter stream must hold, but for the errors' texts: every broken message as it is."""
    return _truth(_raw([each for each in landed if each.message.flight is None]))


def flight_rows(landed: Sequence[Landed], feed: Feed, mistakes: Mapping[str, str]) -> Truth:
    """Return what the partition stream must hold: the flights themselves, each with its message's place.

    `mistakes`: columns that the parser reads from the field of another one.
    """
    good = [each for each in landed if each.message.flight is not None]
    rows = feed.rows.take(pa.array([each.message.flight for each in good], pa.int64()))
    for name, other in mistakes.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, rows[other])
    for name, column in _places(good).items():
        rows = rows.append_column(name, column)
    return _truth(rows)


def consumed(broker: KafkaBroker, ends: dict[Partition, Offsets]) -> set[tuple[str, int, int, bytes | None]]:
    """Return place and value of every committed message, as any consumer reads them. Raises KafkaException."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "demo", "enable.partition.eof": True}
    consumer = Consumer(settings | {"isolation.level": "read_committed", "auto.offset.reset": "error"})
    consumer.assign([TopicPartition(*each, 0) for each in ends])
    found, open_ = set(), set(ends)
    deadline = time.monotonic() + _TIMEOUT
    try:
        while open_:
            if time.monotonic() > deadline:
                raise KafkaException(KafkaError(KafkaError._TIMED_OUT))  # noqa: SLF001 -- the client's own name
            for message in consumer.consume(10_000, _POLL):
                error = message.error()
                if error is None:
                    found.add((message.topic(), message.partition(), message.offset(), message.value()))
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001
                    open_.discard(Partition(message.topic(), message.partition()))
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    return found


def _truth(table: pa.Table) -> Truth:
    found = ContentChecksum().update(table)
    return Truth(found.rows, found.hex)


def _places(landed: Sequence[Landed]) -> dict[str, pa.Array]:
    return {
        "kafka_topic": pa.array([each.topic for each in landed], pa.string()),
        "kafka_partition": pa.array([each.partition for each in landed], pa.int32()),
        "kafka_offset": pa.array([each.offset for each in landed], pa.int64()),
    }


def _raw(landed: Sequence[Landed]) -> pa.Table:
    times = pa.array(np.fromiter((each.timestamp for each in landed), np.int64, len(landed)))
    return pa.table(
        _places(landed)
        | {
            "kafka_timestamp": pc.multiply(times, 1000).cast(pa.timestamp("us", "UTC")),
            "kafka_timestamp_ms": times,
            "key": pa.array([each.message.key for each in landed], pa.binary()),
            "value": pa.array([each.message.value for each in landed], pa.binary()),
            "headers": pa.array([_HEADERS] * len(landed), pa.string()),
        }
    )
