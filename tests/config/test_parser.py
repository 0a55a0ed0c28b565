"""How messages are parsed: each format has its own keys, and one wrong value is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from drystone.config.load import Loaded, load
from drystone.config.parser import FORMATS, FieldAt, OwnParser
from drystone.errors import ConfigError

PLACE = "streams.flights.ingest.parser"
RIGHT: dict[str, dict[str, Any]] = {
    "json": {},
    "avro": {"schema_file": "f.avsc"},
    "protobuf": {"descriptor_set": "f.desc", "message": "a.B"},
    "msgpack": {},
    "delimited": {"columns": ["a", "b"]},
    "regex": {"pattern": "(?P<a>.*)"},
    "lines-of-ours": {"options": {"any": ["thing"]}},
}


def read(folder: Path, parser: object) -> Loaded:
    """Load a configuration with this parser."""
    ingest = {
        "kind": "kafka", "group": "partition", "bootstrap_servers": "b:9092", "topics": "flights",
        "dead_letters": "dead", "parser": parser,
    }  # fmt: skip
    flights = {
        "labels": {"dataset": "flights"},
        "time_column": "time",
        "sort_key": ["carrier"],
        "schema": {"time": "timestamp", "carrier": "string", "body": "binary"},
        "ingest": ingest,
    }
    dead = {"labels": {"dataset": "dead"}, "ingest": {"kind": "dead_letters"}}
    document = {"version": 1, "bucket": "file:bucket", "streams": {"flights": flights, "dead": dead}}
    file = folder / "drystone.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return load(file)


@pytest.mark.parametrize("name", RIGHT)
def test_every_format_has_its_own_keys(tmp_path: Path, name: str) -> None:
    """And those that all have; paths are written in several ways."""
    common = {
        "fields": {"carrier": "a.b.0", "body": {"path": ["x.y", 1], "format": "ms"}},
        "time": {"path": "t", "format": "us"},
        "split": [{"column": "carrier"}, {"kafka_time": "hour"}, {"offsets": 10}],
    }
    made = read(tmp_path, {"format": name, **RIGHT[name], **common}).stream("flights").kafka.parser
    assert type(made) is FORMATS.get(name, OwnParser)
    assert made.fields == {
        "carrier": FieldAt(path=("a", "b", "0")),
        "body": FieldAt(path=("x.y", 1), format="ms"),
    }
    assert made.time.path == ("t",)


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"format": "json", "fild": 1}, f"{PLACE}.fild", "unknown key; known here: format, fields, time, split"),
    ({"format": "avro", "registri": 1}, f"{PLACE}.registri", "fields, time, split, framing, schema,"),
    ({"format": "mine", "columns": []}, f"{PLACE}.columns", "known here: format, fields, time, split, options"),
    ({"format": 5}, f"{PLACE}.format", "must be text"),
    ({"format": "json", "fields": {"carrier": ""}}, f"{PLACE}.fields.carrier.path", "must be a path, such as a.b.0"),
    ({"format": "json", "fields": {"carrier": "a..b"}}, f"{PLACE}.fields.carrier.path", "must be a path"),
    ({"format": "json", "fields": {"carrier": {}}}, f"{PLACE}.fields.carrier.path", "is missing"),
    ({"format": "json", "fields": {"carrier": {"path": "a", "as": 1}}}, f"{PLACE}.fields.carrier.as", "path, format"),
    ({"format": "json", "fields": {"gone": "a"}}, "streams.flights", "the schema has no column gone; it has time,"),
    ({"format": "json", "fields": {"time": "a"}}, "streams.flights", "fields: time is the time column: say in `time`"),
    ({"format": "json", "fields": {"kafka_offset": "a"}}, "streams.flights", "the schema has no column kafka_offset"),
    ({"format": "json", "time": "kafka"}, f"{PLACE}.time", "block of keys and values"),
    ({"format": "json", "time": {"from": "nowhere"}}, f"{PLACE}.time.from", "'path', 'kafka' or 'none'"),
    ({"format": "json", "time": {"from": "kafka", "path": "a"}}, f"{PLACE}.time", "has neither path nor format"),
    ({"format": "json", "time": {"path": "a", "format": "min"}}, f"{PLACE}.time.format", "'iso8601', 's', 'ms'"),
    ({"format": "json", "split": [{}]}, f"{PLACE}.split.0", "exactly one of column, kafka_time, offsets"),
    ({"format": "json", "split": [{"offsets": 1, "column": "carrier"}]}, f"{PLACE}.split.0", "exactly one of"),
    ({"format": "json", "split": [{"offsets": 0}]}, f"{PLACE}.split.0.offsets", "greater than or equal to 1"),
    ({"format": "json", "split": [{"field": "a"}]}, f"{PLACE}.split.0.field", "here: column, kafka_time, offsets"),
    ({"format": "json", "split": [{"column": "gone"}]}, "streams.flights", "split: the schema has no column gone"),
    ({"format": "avro"}, PLACE, "framing datum needs schema or schema_file"),
    ({"format": "avro", "registry": "r"}, PLACE, "framing datum needs schema or schema_file"),
    ({"format": "avro", "schema": {}, "schema_file": "a"}, PLACE, "framing datum needs schema or schema_file"),
    ({"format": "avro", "framing": "confluent", "schema_file": "a"}, PLACE, "framing confluent needs registry"),
    ({"format": "avro", "framing": "single_object"}, PLACE, "needs one of schema, schema_file, registry"),
    ({"format": "protobuf", "message": "A"}, f"{PLACE}.descriptor_set", "is missing"),
    ({"format": "protobuf", "descriptor_set": "a"}, f"{PLACE}.message", "is missing"),
    ({"format": "delimited"}, f"{PLACE}.columns", "is missing"),
    ({"format": "delimited", "columns": ["a", "a"]}, PLACE, "columns: a stands twice"),
    ({"format": "delimited", "columns": ["a"], "delimiter": "||"}, f"{PLACE}.delimiter", "at most 1 character"),
    ({"format": "delimited", "columns": ["a"], "delimiter": '"'}, PLACE, "must be two different characters"),
    ({"format": "regex", "pattern": "("}, PLACE, "pattern is no regular expression: missing )"),
    ({"format": "regex", "pattern": "(a)"}, PLACE, "pattern has no named groups: write (?P<name>…)"),
]  # fmt: skip


@pytest.mark.parametrize(("parser", "place", "allowed"), WRONG, ids=[str(w[0])[:60] for w in WRONG])
def test_one_wrong_value_is_one_line(tmp_path: Path, parser: dict[str, Any], place: str, allowed: str) -> None:
    """It begins with the file and the path in it, says what is allowed, and has no line beside it."""
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, parser)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'drystone.yaml'}: {place}: "), text
    assert allowed in text
    assert "\n" not in text
