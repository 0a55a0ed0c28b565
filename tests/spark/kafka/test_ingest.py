"""Messages of a real broker to blocks, through Spark's own Kafka source."""

from __future__ import annotations

import pytest
from kafka_streams import KafkaStream

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.kafka]


def test_every_committed_message_is_in_a_block_once(stream: KafkaStream) -> None:
    """Of two partitions, with gaps in their offsets; more messages, partitions and topics are found by themselves."""
    stream.produce(30, aborted=5)
    stream.produce(20, partition=1)
    first = stream.job()
    assert first.ok, first.error
    assert (first.summary["rows"], first.summary["plans"], first.summary["blocks"]) == (50, 2, 4)
    stream.check()
    stream.produce(7, aborted=3)
    stream.kafka.add_partitions(stream.topic(), 3)
    stream.produce(5, partition=2)
    stream.kafka.create_topic(stream.topic("b"), 1)
    stream.produce(4, name="b")
    second = stream.job()
    assert second.ok, second.error
    assert (second.summary["rows"], second.summary["plans"], second.summary["lag_offsets"]) == (16, 3, 0)
    stream.check()
    third = stream.job()
    assert (third.ok, third.summary["plans"], third.blocks) == (True, 0, [])
