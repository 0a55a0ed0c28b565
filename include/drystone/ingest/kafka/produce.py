"""Sending messages into a topic in one transaction, once however often it is tried.

With the messages the transaction commits an offset of a consumer group of its own name: how many they were. A later
try under that name waits until the transaction of the one before has ended, and looks there whether it was committed.
Source: KIP-98, "Exactly Once Delivery and Transactional Messaging".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from drystone.config.ingest import KafkaIngest
from drystone.ingest.kafka.failures import Heard, explained
from drystone.ingest.kafka.settings import filled

_TIMEOUT = 60.0
_LONGEST = 15 * 60_000
"""What brokers allow a transaction to take, in ms, if they are not told otherwise."""


def produce(config: KafkaIngest, topic: str, batches: Iterable[pa.RecordBatch], name: str) -> int:
    """Send messages (MESSAGES) to a topic, each to the partition that it names, in their order; return how many.

    `name`: of the transaction. Who reads committed messages sees all of them or, whatever happens, none. If one of this
    name was committed before, nothing is sent, and the count is that one's. Raises KafkaError, after which another
    attempt may help, or KafkaAccessError.
    """
    heard = Heard()
    settings: dict[str, Any] = {
        "log_level": "2",
        "client.id": "drystone",
        **filled(config.client, "ingest.client"),
        "bootstrap.servers": config.bootstrap_servers,
        "error_cb": heard,
    }
    try:
        producer = Producer(settings | {"transactional.id": name, "transaction.timeout.ms": _LONGEST})
        # From here on no other try can send anything: it is fenced off.
        producer.init_transactions(_TIMEOUT)
        marker = Consumer(settings | {"group.id": name, "enable.auto.commit": False})
        try:
            return _send_once(producer, marker, topic, batches)
        finally:
            marker.close()
    except KafkaException as error:
        raise explained(error, f"Kafka at {config.bootstrap_servers}", f"take messages for {topic}", heard) from None


def _send_once(producer: Producer, marker: Consumer, topic: str, batches: Iterable[pa.RecordBatch]) -> int:
    (before,) = marker.committed([TopicPartition(topic, 0)], _TIMEOUT)
    if before.error is not None:
        raise KafkaException(before.error)
    if before.offset >= 0:
        return before.offset
    count = 0
    producer.begin_transaction()
    try:
        for batch in batches:
            for message in batch.drop_columns(["topic", "offset"]).to_pylist():
                _send(producer, topic, message)
                count += 1
        sent = [TopicPartition(topic, 0, count)]
        producer.send_offsets_to_transaction(sent, marker.consumer_group_metadata(), _TIMEOUT)
        # What was refused fails the commit, too.
        producer.commit_transaction(_TIMEOUT)
    except BaseException:
        producer.abort_transaction(_TIMEOUT)
        raise
    return count


def _send(producer: Producer, topic: str, message: dict[str, Any]) -> None:
    moment = message["timestamp"]
    known = {} if moment is None else {"timestamp": round(moment.timestamp() * 1000)}
    headers = [(each["key"], each["value"]) for each in message["headers"] or []]
    while True:
        try:
            producer.produce(
                topic,
                key=message["key"],
                value=message["value"],
                headers=headers,
                partition=message["partition"],
                **known,
            )
        except BufferError:
            producer.poll(0.1)
        else:
            producer.poll(0)
            return
