"""Streams from Kafka: what they have by themselves, what they need, and one line for each wrong value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from drystone.config.ingest import BACKUP, DEAD, POSITION, DeadLetters, FilesIngest, KafkaIngest
from drystone.config.load import Loaded, load
from drystone.errors import ConfigError, UsageError

BROKERS = {"kind": "kafka", "bootstrap_servers": "127.0.0.1:9092", "topics": r"flights\..*"}
PLAIN: dict[str, Any] = {
    "version": 1,
    "bucket": "file:bucket",
    "streams": {
        "backup": {"labels": {"dataset": "raw"}, "ingest": {**BROKERS, "group": "backup"}},
        "flights": {
            "labels": {"dataset": "flights"},
            "time_column": "time",
            "sort_key": ["carrier", "time"],
            "schema": {"time": "timestamp", "carrier": "string"},
            "ingest": {**BROKERS, "group": "partition", "parser": {"format": "json"}, "dead_letters": "dead"},
        },
        "dead": {"labels": {"dataset": "dead"}, "ingest": {"kind": "dead_letters"}},
        "files": {
            "labels": {"dataset": "files"},
            "time_column": "time",
            "sort_key": ["time"],
            "ingest": {"path": "*.csv", "format": "csv"},
        },
    },
}
BACK, FLIGHTS, DEADS = (f"streams.{name}" for name in ("backup", "flights", "dead"))


def read(folder: Path, path: str = "", value: object = None) -> Loaded:
    """Load the plain configuration with one value changed, or taken away if it is the string `-`."""
    document = yaml.safe_load(yaml.safe_dump(PLAIN, sort_keys=False))
    *above, last = path.split(".") if path else [""]
    place = document
    for part in above:
        place = place[part]
    if value == "-":
        del place[last]
    elif last:
        place[last] = value
    file = folder / "drystone.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return load(file)


def test_streams_have_by_themselves_what_follows_from_where_rows_come_from(tmp_path: Path) -> None:
    """Backup and dead letters keep messages; parsed rows get their message's position, and are sorted by it at last."""
    loaded = read(tmp_path)
    for name, columns in {"backup": BACKUP, "dead": DEAD}.items():
        stream = loaded.stream(name)
        assert stream.columns == columns
        assert (stream.time_column, stream.sort_key) == ("kafka_timestamp", tuple(POSITION))
    flights = loaded.stream("flights")
    assert flights.columns == {"time": "timestamp", "carrier": "string", **POSITION}
    assert flights.sort_key == ("carrier", "time", "kafka_topic", "kafka_partition", "kafka_offset")
    assert flights.parsed_columns == {"time": "timestamp", "carrier": "string"}
    assert [type(stream.ingest) for stream in loaded.config.streams.values()] == [
        KafkaIngest,
        KafkaIngest,
        DeadLetters,
        FilesIngest,
    ]


def test_a_stream_is_asked_for_what_it_is(tmp_path: Path) -> None:
    """Whoever needs files or Kafka and finds something else gets an error, not an attribute of it."""
    loaded = read(tmp_path)
    assert loaded.stream("files").files.format == "csv"
    assert loaded.stream("backup").kafka.max_bytes == 200_000_000
    with pytest.raises(UsageError, match=r"do not come from files: ingest\.kind is kafka"):
        _ = loaded.stream("backup").files
    with pytest.raises(UsageError, match=r"do not come from Kafka: ingest\.kind is dead_letters"):
        _ = loaded.stream("dead").kafka


WRONG: list[tuple[str, object, str, str]] = [
    (f"{BACK}.schema", {"a": "string"}, BACK, "schema cannot be chosen: messages are kept as they are"),
    (f"{DEADS}.sort_key", ["kafka_topic"], DEADS, "sort_key cannot be chosen"),
    (f"{DEADS}.time_column", "at", DEADS, "time_column cannot be chosen"),
    (f"{FLIGHTS}.schema", "infer", FLIGHTS, "schema is missing: Kafka does not say which columns messages have"),
    (f"{FLIGHTS}.schema", "-", FLIGHTS, "schema is missing"),
    (f"{FLIGHTS}.schema", ["time"], f"{FLIGHTS}.schema", "must be `infer`, or the columns with their types"),
    (f"{FLIGHTS}.schema.kafka_offset", "int64", FLIGHTS, "kafka_offset cannot be chosen"),
    (f"{FLIGHTS}.schema.Kafka_Topic", "string", FLIGHTS, "Kafka_Topic cannot be chosen"),
    (f"{FLIGHTS}.sort_key", ["time", "kafka_offset"], FLIGHTS, "kafka_offset cannot be chosen"),
    (f"{FLIGHTS}.sort_key", [], f"{FLIGHTS}.sort_key", "at least 1 item"),
    (f"{FLIGHTS}.sort_key", "-", f"{FLIGHTS}.sort_key", "is missing"),
    (f"{FLIGHTS}.time_column", "-", f"{FLIGHTS}.time_column", "is missing"),
    (f"{FLIGHTS}.time_column", "carrier", FLIGHTS, "time_column carrier must be a timestamp or a date, not string"),
    (f"{FLIGHTS}.ingest.group", "-", f"{FLIGHTS}.ingest.group", "is missing"),
    (f"{FLIGHTS}.ingest.group", "other", f"{FLIGHTS}.ingest.group", "Input should be 'backup' or 'partition'"),
    (f"{FLIGHTS}.ingest.group", 1, f"{FLIGHTS}.ingest.group", "Input should be 'backup' or 'partition'"),
    (f"{FLIGHTS}.ingest.topics", "flights(", f"{FLIGHTS}.ingest.topics", "is no regular expression: missing )"),
    (f"{FLIGHTS}.ingest.topics", "", f"{FLIGHTS}.ingest.topics", "at least 1 character"),
    (f"{FLIGHTS}.ingest.bootstrap_servers", "-", f"{FLIGHTS}.ingest.bootstrap_servers", "is missing"),
    (f"{FLIGHTS}.ingest.start", "now", f"{FLIGHTS}.ingest.start", "'earliest' or 'latest'"),
    (f"{FLIGHTS}.ingest.max_bytes", 200, f"{FLIGHTS}.ingest.max_bytes", "such as 128MiB"),
    (f"{FLIGHTS}.ingest.max_bad_fraction", 1.5, f"{FLIGHTS}.ingest.max_bad_fraction", "less than or equal to 1"),
    (f"{FLIGHTS}.ingest.max_lag", "59min", f"{FLIGHTS}.ingest", "max_lag must not be less than max_age"),
    (f"{FLIGHTS}.ingest.client", {"a": 1}, f"{FLIGHTS}.ingest.client.a", "must be text: put it into quotes"),
    (f"{FLIGHTS}.ingest.pth", "x", f"{FLIGHTS}.ingest.pth", "unknown key; known here: kind, group, bootstrap_servers"),
    (f"{FLIGHTS}.ingest.parser", "-", f"{FLIGHTS}.ingest", "group partition needs parser"),
    (f"{FLIGHTS}.ingest.parser", {}, f"{FLIGHTS}.ingest.parser.format", "is missing"),
    (f"{FLIGHTS}.ingest.dead_letters", "-", f"{FLIGHTS}.ingest", "group partition needs dead_letters"),
    (f"{FLIGHTS}.ingest.dead_letters", "gone", f"{FLIGHTS}.ingest.dead_letters", "whose ingest.kind is dead_letters"),
    (f"{FLIGHTS}.ingest.dead_letters", "backup", f"{FLIGHTS}.ingest.dead_letters", "whose ingest.kind is dead_letters"),
    (f"{DEADS}.bucket", "file:other", f"{FLIGHTS}.ingest.dead_letters", "must name a stream in the same bucket"),
    (f"{DEADS}.ingest.path", "x", f"{DEADS}.ingest.path", "unknown key; known here: kind"),
    (f"{BACK}.ingest.parser", {"format": "json"}, f"{BACK}.ingest", "group backup never parses: leave parser out"),
    (f"{BACK}.ingest.dead_letters", "dead", f"{BACK}.ingest", "group backup never parses: leave dead_letters out"),
    (f"{BACK}.ingest.max_bad_fraction", 0.5, f"{BACK}.ingest", "group backup never parses: leave max_bad_fraction out"),
    (
        "streams.more",
        PLAIN["streams"]["flights"],
        "streams.more.ingest.dead_letters",
        "is the stream of flights's dead letters: each stream needs its own (given: 'dead')",
    ),
]


@pytest.mark.parametrize(("path", "value", "place", "allowed"), WRONG, ids=[f"{w[0]}={w[1]}"[:60] for w in WRONG])
def test_one_wrong_value_is_one_line(tmp_path: Path, path: str, value: object, place: str, allowed: str) -> None:
    """It begins with the file and the path in it, says what is allowed, and has no line beside it."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, path, value)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'drystone.yaml'}: {place}: "), text
    assert allowed in text
    assert "\n" not in text
