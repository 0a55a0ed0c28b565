"""A stream over the real broker for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_streams import KafkaStream, make_stream
from pyspark.sql import SparkSession

from drystone.testing.kafka import KafkaBroker


@pytest.fixture
def stream(
    tmp_path: Path, kafka: KafkaBroker, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> Iterator[KafkaStream]:
    """A backup stream, and a topic of its own with two partitions; the topics are deleted at the end."""
    made = make_stream(tmp_path, kafka, spark, monkeypatch)
    yield made
    for name in [each for each in kafka.admin().list_topics(timeout=20).topics if each.startswith(made.prefix)]:
        kafka.delete_topic(name)
