"""Which streams of a configuration hold messages of Kafka, and whose ingest fills them."""

from __future__ import annotations

from pathlib import Path

import pytest

from drystone.config.load import Loaded, load
from drystone.errors import UsageError
from drystone.ingest.kafka.streams import kafka_stream, kafka_streams

_FILE = """
version: 1
bucket: file:bucket
streams:
  raw:
    labels: {stream: raw}
    generation: 3
    ingest: {kind: kafka, group: backup, bootstrap_servers: "127.0.0.1:1", topics: flights}
  flights:
    labels: {stream: flights}
    generation: 2
    schema: {at: timestamp}
    time_column: at
    sort_key: [at]
    ingest:
      kind: kafka
      group: partition
      bootstrap_servers: "127.0.0.1:1"
      topics: flights
      dead_letters: dead
      parser: {format: json}
  dead:
    labels: {stream: dead}
    ingest: {kind: dead_letters}
  left:
    labels: {stream: left}
    ingest: {kind: dead_letters}
  files:
    labels: {stream: files}
    schema: {at: timestamp}
    time_column: at
    sort_key: [at]
    ingest: {kind: files, path: in, format: csv}
"""


@pytest.fixture
def loaded(tmp_path: Path) -> Loaded:
    """One of each kind, and dead letters that no stream makes any more."""
    (tmp_path / "drystone.yaml").write_text(_FILE)
    return load(tmp_path / "drystone.yaml")


def test_dead_letters_belong_to_the_stream_that_makes_them(loaded: Loaded) -> None:
    """Its plans, of its generation, name their sources."""
    found = {each.name: (each.group, each.planned_by, each.generation) for each in kafka_streams(loaded)}
    assert found == {
        "dead": ("dead letters", "flights", 2),
        "flights": ("partition", "flights", 2),
        "raw": ("backup", "raw", 3),
    }


def test_dead_letters_that_no_stream_makes_are_told_from_streams_of_something_else(loaded: Loaded) -> None:
    """With what to do about it."""
    with pytest.raises(UsageError, match=r"left is named by no stream's ingest.dead_letters: .* Add the stream"):
        kafka_stream(loaded, "left")
    with pytest.raises(UsageError, match=r"files holds no messages of Kafka"):
        kafka_stream(loaded, "files")
