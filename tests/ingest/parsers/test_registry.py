"""From configuration to parser: what can never work is one line at the start; a digest tells two parsers apart."""

from __future__ import annotations

import json
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf import descriptor_pb2
from message_schemas import AVRO, descriptor_set
from parsing import COLUMNS, PLANNED_AT, messages, parser, rows

from drystone.config.load import load
from drystone.errors import InputError
from drystone.ingest.parsers import registry
from drystone.ingest.parsers.registry import parser_of
from drystone.ingest.parsers.times import TimeLimits

PROTO = {"format": "protobuf", "descriptor_set": "f.desc", "message": "demo.Flight", "time": {"path": "at"}}
CONFLUENT = {"format": "avro", "framing": "confluent", "registry": "r.json"}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"format": "jsn"}, "format 'jsn' is unknown. Known here: avro, delimited, json, msgpack, protobuf, regex"),
    ({"format": "json", "split": [{"column": "raw"}]}, "split: raw is binary"),
    ({"format": "json", "fields": {"gone": "a"}}, "fields: the schema has no column gone"),
    ({"format": "avro", "schema_file": "gone.avsc"}, "schema_file: .*gone.avsc cannot be read: No such file"),
    ({"format": "avro", "schema_file": "."}, "schema_file: .* cannot be read: Is a directory"),
    ({"format": "avro", "schema_file": "broken"}, "broken is no JSON: Expecting value"),
    ({"format": "avro", "schema": {"type": "nothing"}}, "schema is no Avro schema: UnknownType: .*nothing"),
    ({"format": "avro", "schema": {"type": "record", "name": "A"}}, "schema has no field name"),
    ({"format": "avro", "schema": {"type": "map", "values": "int"}}, "schema is no schema of a record"),
    ({"format": "avro", "schema": AVRO}, "has no field ratio. Say in ingest.parser.fields"),
    ({"format": "avro", "schema": AVRO, "fields": {"ratio": "tags.w", "raw": "legs.to"}}, "has no field legs.to"),
    ({"format": "avro", "schema": AVRO, "fields": {"ratio": "tags.w", "raw": "legs.0.next.x"}}, "no field legs.0.nex"),
    ({"format": "avro", "schema": AVRO, "fields": {"ratio": "tags.w", "raw": "kind"}}, "has no field time"),
    (CONFLUENT | {"registry": "empty.json"}, "empty.json is no registry of schemas"),
    (CONFLUENT | {"registry": "named.json"}, "named.json, schema one: ids are numbers"),
    (PROTO | {"descriptor_set": "gone"}, "descriptor_set: .*gone cannot be read"),
    (PROTO | {"descriptor_set": "broken"}, "broken is no descriptor set. Make it with `protoc --include_imports"),
    (PROTO | {"descriptor_set": "alone.desc"}, "alone.desc cannot be used: .*timestamp.proto.*--include_imports"),
    (PROTO | {"message": "demo.Fligth"}, r"f.desc has no message demo.Fligth. It has .*demo.Leg, demo.Flight"),
    (PROTO, "f.desc: demo.Flight has no field ratio"),
    (PROTO | {"fields": {"ratio": "tags"}}, "has a map at tags"),
    (PROTO | {"fields": {"ratio": "legs.to"}}, "has a list at legs.to: a number must follow"),
    (PROTO | {"fields": {"ratio": "legs.0.next"}}, "has a message at legs.0.next"),
    (PROTO | {"fields": {"ratio": "at.seconds"}}, "has no field at.seconds"),
    ({"format": "delimited", "columns": ["time", "name"]}, "columns gives no count. It gives time, name"),
    ({"format": "delimited", "columns": ["time", *"abcd"], "fields": {"name": "a.b"}}, "columns gives no a.b"),
    ({"format": "regex", "pattern": "(?P<name>.*)"}, "pattern gives no count. It gives name"),
]  # fmt: skip


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """A folder with good and bad files of schemas."""
    (tmp_path / "broken").write_bytes(b"\xff\xff?")
    (tmp_path / "broken").write_text("x" * 3)
    (tmp_path / "empty.json").write_text("{}")
    (tmp_path / "named.json").write_text(json.dumps({"one": AVRO}))
    (tmp_path / "r.json").write_text(json.dumps({"1": AVRO}))
    (tmp_path / "f.desc").write_bytes(descriptor_set())
    alone = descriptor_pb2.FileDescriptorSet.FromString(descriptor_set())
    del alone.file[:2]
    (tmp_path / "alone.desc").write_bytes(alone.SerializeToString())
    return tmp_path


@pytest.mark.parametrize(("config", "said"), WRONG, ids=[said[:50] for _, said in WRONG])
def test_what_can_never_work_is_said_at_the_start(base: Path, config: dict[str, Any], said: str) -> None:
    """In one line that names the key or the file, before any message comes."""
    with pytest.raises(InputError) as caught:
        parser(config, COLUMNS | {"raw": "binary"}, base)
    assert re.search(said, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_digest_tells_parsers_apart(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It follows from configuration, columns, limits, files and the code's version, and from nothing else."""
    config = CONFLUENT | {"fields": {"ratio": "tags.w"}, "time": {"path": "at"}}

    def digest(**more: Any) -> str:
        return parser(config | more.pop("config", {}), more.pop("columns", COLUMNS), base, **more).digest

    first = digest()
    assert first == digest()
    assert re.fullmatch("[0-9a-f]{32}", first)
    others = [
        digest(config={"time": {"path": "at", "format": "ms"}}),
        digest(config={"split": [{"column": "name"}]}),
        digest(columns=COLUMNS | {"count": "int64"}),
        digest(limits=TimeLimits(0, 0)),
    ]
    monkeypatch.setattr(registry, "VERSION", registry.VERSION + 1)
    others.append(digest())
    monkeypatch.undo()
    (base / "r.json").write_text(json.dumps({"1": AVRO, "2": AVRO}))
    others.append(digest())
    assert len({first, *others}) == len(others) + 1


def test_the_position_of_messages_is_not_the_parsers() -> None:
    """Whether or not the schema has those columns already."""
    more = {"kafka_topic": "string", "kafka_partition": "int32", "kafka_offset": "int64"}
    for columns in (COLUMNS, COLUMNS | more):
        made = parser({"format": "json"}, columns)
        parsed = made.parse(messages([b"{}"]), PLANNED_AT)
        assert parsed.rows.column_names == list(COLUMNS)
        assert parsed.rows.schema.field("time").type == pa.timestamp("us", "UTC")


MADE: dict[str, tuple[dict[str, Any], bytes]] = {
    "json": ({"format": "json"}, b'{"name":"x"}'),
    "msgpack": ({"format": "msgpack"}, b"\x81\xa4name\xa1x"),
    "avro": (CONFLUENT | {"fields": {"ratio": "tags.w"}, "time": {"path": "at"}}, b"?"),
    "protobuf": (PROTO | {"fields": {"ratio": "tags.w"}}, b"\x12\x01x"),
    "delimited": ({"format": "delimited", "columns": ["time", "name", "count", "ratio"]}, b",x,,"),
    "regex": ({"format": "regex", "pattern": "(?P<name>.)(?P<time>)(?P<count>)(?P<ratio>)", "null_values": [""]}, b"x"),
}


def test_parsers_travel(base: Path) -> None:
    """Also after they were used: another process gets the same rows from what was pickled, without any file."""
    made = {name: parser(config, COLUMNS, base) for name, (config, _) in MADE.items()}
    batches = {name: messages([value, b"\xff"]) for name, (_, value) in MADE.items()}
    here = {name: made[name].parse(batches[name], PLANNED_AT) for name in MADE}
    sent = base / "sent"
    sent.write_bytes(pickle.dumps([(made[name], batches[name], PLANNED_AT) for name in MADE]))
    for file in base.glob("*.*"):
        file.unlink()
    code = "import pickle, sys; them = [p.parse(*rest) for p, *rest in pickle.load(open(sys.argv[1], 'rb'))]; "
    code += "print([(each.rows.to_pylist(), each.errors) for each in them])"
    run = subprocess.run([sys.executable, "-c", code, str(sent)], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == str([(each.rows.to_pylist(), each.errors) for each in here.values()]), run.stderr
    assert {name: rows(each) for name, each in here.items()} == {
        name: {"avro": [], "protobuf": [{"name": "x", "count": 0}]}.get(name, [{"name": "x"}]) for name in MADE
    }


def test_a_streams_configuration_says_it_all(tmp_path: Path) -> None:
    """Columns, limits and files follow from it; a backup group has no parser."""
    kafka = "kind: kafka, bootstrap_servers: b, topics: t"
    more = "dead_letters: dead, earliest_time: 2023-11-01, latest_time: 1h, parser: {format: json}"
    text = f"""
version: 1
bucket: file:bucket
streams:
  dead: {{labels: {{a: b}}, ingest: {{kind: dead_letters}}}}
  back: {{labels: {{a: b}}, ingest: {{{kafka}, group: backup}}}}
  parsed:
    labels: {{a: b}}
    time_column: time
    sort_key: [time]
    schema: {{time: timestamp, name: string}}
    ingest: {{{kafka}, group: partition, {more}}}
"""
    (tmp_path / "drystone.yaml").write_text(text)
    loaded = load(tmp_path / "drystone.yaml")
    made = parser_of(loaded.stream("parsed"), tmp_path)
    times = ["2023-10-31T23:59:59Z", "2023-11-01", "2023-11-14T23:13:20Z", "2023-11-14T23:13:21Z"]
    parsed = made.parse(messages([json.dumps({"time": each}).encode() for each in times]), PLANNED_AT)
    assert parsed.rows.column_names == ["time", "name"]
    assert parsed.rows.column("time").is_valid().to_pylist() == [False, True, True, False]
    with pytest.raises(InputError, match="a backup group parses no messages"):
        parser_of(loaded.stream("back"), tmp_path)


def forgetful(patch: pytest.MonkeyPatch) -> None:
    """The digest forgets the files."""
    real = registry._digest
    patch.setattr(registry, "_digest", lambda config, layout, _files: real(config, layout, {}))


def test_a_digest_that_forgets_is_seen(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test above fails with such a digest."""
    forgetful(monkeypatch)
    with pytest.raises(AssertionError), pytest.MonkeyPatch.context() as inner:
        test_a_digest_tells_parsers_apart(base, inner)
