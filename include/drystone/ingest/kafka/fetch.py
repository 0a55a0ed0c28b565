"""Reading a range of a partition's committed messages by a client of Kafka: for what is done again without Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import pyarrow as pa
from confluent_kafka import (
    TIMESTAMP_NOT_AVAILABLE,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from drystone.config.ingest import KafkaIngest
from drystone.ingest.kafka.failures import Heard, explained
from drystone.ingest.kafka.messages import MESSAGES
from drystone.ingest.kafka.settings import filled

_BATCH = 5_000
_POLL = 0.1
_SILENCE = 30.0
"""Seconds without a message after which the cluster is taken for unreachable."""


def fetch(config: KafkaIngest, group: str, place: tuple[str, int], start: int, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the committed messages of a partition (topic, number) with offsets in [start, end), in their order.

    `group`: the consumer group, which is never joined. Raises KafkaError, after which another attempt may help, if the
    cluster cannot be reached or does not have the first of these offsets any more; KafkaAccessError for wrong rights.
    """
    heard = Heard()
    settings: dict[str, Any] = {
        "log_level": "2",
        "client.id": "drystone",
        **filled(config.client, "ingest.client"),
        "bootstrap.servers": config.bootstrap_servers,
        "group.id": group,
        "error_cb": heard,
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
    }
    try:
        with closing(Consumer(settings)) as consumer:
            consumer.assign([TopicPartition(*place, start)])
            yield from _read(consumer, end)
    except KafkaException as error:
        what = f"read offsets {start} to {end - 1} of {place[0]}-{place[1]}"
        raise explained(error, f"Kafka at {config.bootstrap_servers}", what, heard) from None


def _read(consumer: Consumer, end: int) -> Iterator[pa.RecordBatch]:
    heard_at = time.monotonic()
    while True:
        found: list[Message] = []
        over = False
        for message in consumer.consume(_BATCH, _POLL):
            error = message.error()
            if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - the client's own name
                raise KafkaException(error)
            # The end of the partition is told with the next offset there will be.
            over = over or error is not None or _offset(message) >= end - 1
            if error is None and _offset(message) < end:
                found.append(message)
        if found:
            heard_at = time.monotonic()
            yield _batch(found)
        if over:
            return
        if time.monotonic() - heard_at > _SILENCE:
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no message came"))  # noqa: SLF001


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None  # noqa: S101 - only messages that are to be sent have none
    return offset


def _batch(found: Sequence[Message]) -> pa.RecordBatch:
    headers: list[Any] = [message.headers() or [] for message in found]
    columns = (
        [message.topic() for message in found],
        [message.partition() for message in found],
        [message.offset() for message in found],
        [_time(message) for message in found],
        [message.key() for message in found],
        [message.value() for message in found],
        [[(name, value) for name, value in pairs] for pairs in headers],
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, MESSAGES, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)


def _time(message: Message) -> int | None:
    kind, milliseconds = message.timestamp()
    return None if kind == TIMESTAMP_NOT_AVAILABLE or milliseconds < 0 else milliseconds * 1000
