"""A look at the first messages that wait in partitions: their size and age, by which the upload policy decides."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from confluent_kafka import TIMESTAMP_NOT_AVAILABLE, Consumer, KafkaError, KafkaException, Message, TopicPartition

from drystone.ingest.kafka.failures import Heard
from drystone.ingest.kafka.log import Sample

MESSAGES = 100
"""How many messages of a partition are looked at, at most."""
_POLL = 0.5


class _Look:
    """What was seen of one partition."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end
        self.messages = self.bytes = 0
        self.next = start
        self.oldest: int | None = None

    def take(self, message: Message) -> bool:
        """Count a message; return whether enough was seen."""
        offset = message.offset()
        assert offset is not None  # noqa: S101 -- only messages that are to be sent have none
        if offset >= self.end:
            return True
        self.messages += 1
        self.bytes += _size(message)
        self.next = offset + 1
        kind, timestamp = message.timestamp()
        if kind != TIMESTAMP_NOT_AVAILABLE and timestamp >= 0:
            self.oldest = timestamp if self.oldest is None else min(self.oldest, timestamp)
        return self.messages >= MESSAGES or self.next >= self.end

    def sample(self) -> Sample:
        return Sample(self.messages, self.bytes / max(1, self.next - self.start), self.oldest)


def sampled(
    settings: Mapping[str, Any], ranges: Mapping[tuple[str, int], tuple[int, int]], timeout: float, heard: Heard
) -> dict[tuple[str, int], Sample]:
    """Return a sample of each range of offsets [start, end), by topic and partition.

    `settings`: the client's, with a group that it never joins. `timeout` (s): for all of them together. `heard`: takes
    what the client tells meanwhile. Raises the client's own KafkaException, also if the time is over.
    """
    looks = {each: _Look(*offsets) for each, offsets in ranges.items()}
    if not looks:
        return {}
    consumer = Consumer(
        dict(settings)
        | {
            "error_cb": heard,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            # The topics were seen a moment ago: one that is not there was deleted.
            "topic.metadata.propagation.max.ms": 2000,
            # Retention may have taken the first ones meanwhile.
            "auto.offset.reset": "earliest",
            # A few messages are wanted, not all that a client would fetch in advance.
            "queued.min.messages": 1,
            "fetch.queue.backoff.ms": 10,
            "fetch.message.max.bytes": 1 << 18,
        }
    )
    try:
        consumer.assign([TopicPartition(*each, look.start) for each, look in looks.items()])
        _read(consumer, looks, time.monotonic() + timeout, heard)
    finally:
        consumer.close()
    return {each: look.sample() for each, look in looks.items()}


def _read(consumer: Consumer, looks: Mapping[tuple[str, int], _Look], deadline: float, heard: Heard) -> None:
    waiting = set(looks)
    while waiting:
        if heard.final is not None:
            raise KafkaException(heard.final)
        if time.monotonic() > deadline:
            late = ", ".join(f"{topic}-{number}" for topic, number in sorted(waiting)[:3])
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no message of {late} came in time"))  # noqa: SLF001
        message = consumer.poll(_POLL)
        if message is None:
            continue
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001
            raise KafkaException(error)
        each = (str(message.topic()), int(message.partition() or 0))
        if each in waiting and (error is not None or looks[each].take(message)):
            waiting.discard(each)
            consumer.incremental_unassign([TopicPartition(*each)])


def _size(message: Message) -> int:
    key, value = message.key() or b"", message.value() or b""
    headers: Any = message.headers() or []
    return len(key) + len(value) + sum(len(name) + len(given or b"") for name, given in headers)
