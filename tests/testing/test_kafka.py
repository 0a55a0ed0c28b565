"""The Kafka broker of the tests: real, at one address for its life, with its topics kept over stops and crashes."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from drystone.errors import DrystoneError, UsageError
from drystone.testing.kafka import KafkaBroker, kafka_broker, send
from drystone.testing.kafka_jars import source_jars

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(kafka: KafkaBroker) -> Iterator[str]:
    """A topic of two partitions."""
    name = f"testing.{uuid.uuid4().hex[:8]}"
    kafka.create_topic(name, 2)
    yield name
    kafka.delete_topic(name)


def read(broker: KafkaBroker, topic: str, partition: int = 0) -> list[tuple[int, bytes]]:
    """Return offset and value of what is committed in a partition."""
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "reader", "enable.partition.eof": True}
    consumer = Consumer(settings | {"isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple[int, bytes]] = []
    while (message := consumer.poll(20)) is not None and message.error() is None:
        found.append((message.offset(), message.value()))
    consumer.close()
    return found


def test_transactions_leave_gaps_between_offsets(kafka: KafkaBroker, topic: str) -> None:
    """Three messages each, committed, aborted, committed, committed: each end of a transaction takes an offset."""
    producer = kafka.producer("gaps")
    for number, good in enumerate((True, False, True, True)):
        producer.begin_transaction()
        send(producer, topic, [{"value": b"%d" % (3 * number + i), "partition": 0} for i in range(3)])
        producer.commit_transaction() if good else producer.abort_transaction()
    assert [offset for offset, _ in read(kafka, topic)] == [0, 1, 2, 8, 9, 10, 12, 13, 14]
    assert read(kafka, topic, 1) == []


def test_topics_can_be_changed(kafka: KafkaBroker, topic: str) -> None:
    """Partitions are added; records go as by retention; a topic that is made again begins anew."""
    send(kafka.producer(), topic, [{"value": b"%d" % i, "partition": 0} for i in range(5)])
    kafka.add_partitions(topic, 3)
    assert len(kafka.admin().list_topics(topic, timeout=20).topics[topic].partitions) == 3
    kafka.delete_records(topic, 0, 3)
    admin = kafka.admin()
    start = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()})
    assert next(iter(start.values())).result().offset == 3
    kafka.delete_topic(topic)
    kafka.create_topic(topic, 1, retention_ms="100000")
    assert read(kafka, topic) == []


def test_a_message_that_is_refused_is_not_passed_over(kafka: KafkaBroker, topic: str) -> None:
    """A partition that is not there takes nothing, and the sender hears of it."""
    with pytest.raises((DrystoneError, KafkaException), match=topic):
        send(kafka.producer(message_timeout_ms=2000), topic, [{"value": b"x", "partition": 7}])


def test_it_keeps_its_topics_over_a_restart_and_a_crash(tmp_path: Path) -> None:
    """The address is the same after both; without them the process ends with the block, and only that process."""
    with kafka_broker(tmp_path) as broker:
        where, pid = broker.bootstrap_servers, broker.pid
        broker.create_topic("kept")
        send(broker.producer(), "kept", [{"value": b"one"}])
        broker.restart()
        assert (broker.bootstrap_servers, read(broker, "kept")) == (where, [(0, b"one")])
        assert broker.pid != pid
        broker.kill()
        with pytest.raises(UsageError, match="does not run"):
            _ = broker.pid
        broker.start()
        assert read(broker, "kept") == [(0, b"one")]
        pid = broker.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_sparks_source_has_all_its_jars() -> None:
    """The source, its client, its pool and its tokens; nothing of Spark or Hadoop itself."""
    names = " ".join(jar.name for jar in source_jars())
    for wanted in ("spark-sql-kafka-0-10_2.13-4.2.0", "kafka-clients-", "commons-pool2-", "token-provider"):
        assert wanted in names
    assert "hadoop" not in names
