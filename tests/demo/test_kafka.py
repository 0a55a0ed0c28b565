"""The parts of the Kafka demo: what it produces on a real broker, its ledger, and its verdict."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import flights
import pyarrow as pa
import pytest
from kafka_feed import FIRST, PARTITIONS, SECOND, TOPICS, Feed, feed
from kafka_produce import Producing
from kafka_proof import BACKUP, DEAD, FLIGHTS, Lag, judge, ledger_is_true, truths
from kafka_run import correct, mistakes_in, write_config

from drystone.block.schema import Column, Schema
from drystone.config.load import load
from drystone.ingest.kafka.broker import Broker, Partition
from drystone.ingest.kafka.messages import MESSAGES
from drystone.ingest.parsers.registry import make_parser
from drystone.testing.kafka import KafkaBroker

BROKEN, UNTIMED = 20, 5


@pytest.fixture(scope="module")
def small() -> Feed:
    """A feed of the first flights of each airport."""
    return feed(flights.load().slice(0, 12_000), broken=BROKEN, untimed=UNTIMED)


def tells_of_a_flight(value: bytes | None) -> bool:
    """Whether a message's value is a JSON object with a flight's number."""
    try:
        told = json.loads(value or b"")
    except ValueError:
        return False
    return isinstance(told, dict) and isinstance(told.get("flight"), int)


def test_every_flight_is_a_message_and_some_more_are_broken(small: Feed) -> None:
    """Keyed by tail number; what has no time has none in the message; only Newark comes before the second topic."""
    good = [each for each in small.messages if each.flight is not None]
    assert sorted(each.flight for each in good if each.flight is not None) == list(range(12_000))
    assert len(small.messages) == 12_000 + BROKEN
    told = [json.loads(each.value or b"") for each in good]
    assert sum("event_time" not in each for each in told) == UNTIMED == small.rows["event_time"].null_count
    assert all(tells_of_a_flight(each.value) for each in good)
    for each, row in zip(good, told, strict=True):
        assert each.key == (row["tailnum"].encode() if "tailnum" in row else None)
        assert each.topic == (FIRST if row["origin"] == "EWR" else SECOND)
    assert {each.topic for each in small.messages[: small.early]} == {FIRST}
    assert not any(tells_of_a_flight(each.value) for each in small.messages if each.flight is None)
    assert next(len(chunk) for chunk in small.chunks()) == 2000
    assert sum(len(chunk) for chunk in small.chunks()) == len(small.messages)


def test_the_parser_refuses_just_the_broken_ones(small: Feed, tmp_path: Path) -> None:
    """With the demo's corrected parser every flight comes out as it was, and what is broken stays out."""
    written = write_config(tmp_path, "127.0.0.1:1")
    assert mistakes_in(written) == {"arr_delay": "dep_delay"}
    correct(written)
    config = load(written)
    stream = config.stream(FLIGHTS)
    assert stream.kafka.parser is not None
    schema = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in stream.parsed_columns.items()))
    parser = make_parser(stream.kafka.parser, schema, stream.time_column, tmp_path)
    count = len(small.messages)
    columns = {
        "topic": pa.array(["t"] * count), "partition": pa.array([0] * count, pa.int32()),
        "offset": pa.array(range(count)), "timestamp": pa.nulls(count, MESSAGES.field("timestamp").type),
        "key": pa.array([each.key for each in small.messages], pa.binary()),
        "value": pa.array([each.value for each in small.messages], pa.binary()),
        "headers": pa.nulls(count, MESSAGES.field("headers").type),
    }  # fmt: skip
    parsed = parser.parse(pa.RecordBatch.from_pydict(columns, schema=MESSAGES), 1_800_000_000_000)
    assert [place for place, _ in parsed.errors] == [i for i, each in enumerate(small.messages) if each.flight is None]
    order = [each.flight for each in small.messages if each.flight is not None]
    wanted = small.rows.take(pa.array(order))
    assert parsed.rows.select(wanted.schema.names).cast(wanted.schema) == wanted


@pytest.mark.kafka
def test_the_ledger_is_what_a_consumer_reads(kafka: KafkaBroker, small: Feed, tmp_path: Path) -> None:
    """Each message is committed once, with aborted ones between; a ledger that is wrong is found out."""
    kafka.create_topic(FIRST, PARTITIONS[FIRST])
    config = load(write_config(tmp_path, kafka.bootstrap_servers))
    assert {name: stream.ingest.kind for name, stream in config.config.streams.items()} == {
        BACKUP: "kafka", FLIGHTS: "kafka", DEAD: "dead_letters",
    }  # fmt: skip
    producing = Producing(kafka, small, pace=0)
    producing.begin()
    producing.finish()
    landed = producing.committed
    assert Counter(id(each.message) for each in landed) == Counter(id(each) for each in small.messages)
    assert 1 < producing.aborted < producing.transactions
    with Broker(config.stream(BACKUP).kafka, "demo") as broker:
        assert list(ledger_is_true(kafka, broker, TOPICS, landed)) == []
        assert list(ledger_is_true(kafka, broker, TOPICS, landed[1:]))
        assert list(ledger_is_true(kafka, broker, TOPICS, [*landed, landed[0]]))
        assert list(ledger_is_true(kafka, broker, TOPICS, [*landed[1:], landed[0]._replace(offset=10**6)]))
        ends = broker.offsets(Partition(topic, each) for topic in (FIRST, SECOND) for each in range(PARTITIONS[topic]))
    assert sum(offsets.end for offsets in ends.values()) > len(landed) + producing.transactions
    found = truths(landed, small)
    assert {name: rows.rows for name, rows in found.items()} == {
        BACKUP: 12_000 + BROKEN, FLIGHTS: 12_000, DEAD: BROKEN,
    }  # fmt: skip
    moved = [landed[0]._replace(offset=landed[0].offset + 1), *landed[1:]]
    assert truths(moved, small)[BACKUP] != found[BACKUP]
    assert truths(moved, small)[FLIGHTS] != found[FLIGHTS]


def test_the_verdict_names_what_is_wrong() -> None:
    """A lost row, a changed one, a lag, and a production that is not what was to be produced."""
    wanted = {BACKUP: flights.Truth(5, "b"), FLIGHTS: flights.Truth(4, "f"), DEAD: flights.Truth(1, "d")}
    parts = [Lag("t", 0, 5, 0, 6, 8, 0)]
    assert list(judge(wanted, wanted, parts, (4, 1))) == []
    lost = wanted | {FLIGHTS: flights.Truth(3, "g")}
    changed = wanted | {DEAD: flights.Truth(1, "x")}
    for found, partitions, kinds, said in (
        (lost, parts, (4, 1), "flights holds"),
        (changed, parts, (4, 1), "flights_dead holds"),
        (wanted, [replace(parts[0], lag=2)], (4, 1), "t-0 has a lag of 2"),
        (wanted, [replace(parts[0], rows=4)], (4, 1), "rows together"),
        (wanted, parts, (5, 1), "are committed, not"),
    ):
        assert [line for line in judge(found, wanted, partitions, kinds) if said in line]
