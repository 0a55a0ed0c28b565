"""Avro, Protocol Buffers, MessagePack and text: what other programs wrote becomes rows, and damage is told."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st
from message_schemas import AVRO, descriptor_set
from messages import PATIENT
from parsing import PLANNED_AT, complaint, messages, only, parse, parser, rows

from drystone.errors import InputError

NOON = datetime(2023, 1, 1, 12, tzinfo=UTC)
FLIGHT = {
    "at": NOON, "name": "N1", "count": 7, "price": Decimal("12.50"), "kind": "PROP",
    "legs": [{"to": "OSL", "next": {"to": "BGO", "next": None}}], "tags": {"w": 0.5},
}  # fmt: skip
COLUMNS = {
    "time": "timestamp", "name": "string", "count": "int32", "price": "decimal(8, 2)", "kind": "string",
    "hop": "string", "w": "float64",
}  # fmt: skip
FIELDS = {"hop": "legs.0.next.to", "w": "tags.w"}
ROW = {"time": NOON, "name": "N1", "count": 7, "price": Decimal("12.50"), "kind": "PROP", "hop": "BGO", "w": 0.5}
TIME = {"path": "at"}


def avro(record: dict[str, Any], schema: dict[str, Any] = AVRO) -> bytes:
    """Return the bare record."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), record)
    return stream.getvalue()


def test_avro_of_a_schema_in_the_configuration_or_a_file(tmp_path: Path) -> None:
    """Unions, enums, decimals, maps, arrays and types that name themselves."""
    (tmp_path / "f.avsc").write_text(json.dumps(AVRO))
    for where in ({"schema": AVRO}, {"schema_file": "f.avsc"}):
        config = {"format": "avro", "fields": FIELDS, "time": TIME, **where}
        assert only(parse(config, avro(FLIGHT), columns=COLUMNS, base=tmp_path)) == ROW
    nothing = FLIGHT | {"at": None, "name": None, "legs": [], "tags": {}}
    assert only(parse(config, avro(nothing), columns=COLUMNS, base=tmp_path)) == {
        "count": 7, "price": Decimal("12.50"), "kind": "PROP",
    }  # fmt: skip


def test_avro_of_a_schema_registry(tmp_path: Path) -> None:
    """Each message names its schema; the registry's file may hold schemas as they are, or as a registry gives them."""
    newer = AVRO | {"fields": [*AVRO["fields"], {"name": "more", "type": "int"}]}
    registry = {"1": AVRO, "70000": {"schema": json.dumps(newer)}, "3": json.dumps(AVRO)}
    (tmp_path / "registry.json").write_text(json.dumps(registry))
    config = {"format": "avro", "framing": "confluent", "registry": "registry.json", "fields": FIELDS, "time": TIME}
    made = parser(config, COLUMNS, tmp_path)
    values = [
        b"\0\0\0\0\1" + avro(FLIGHT),
        b"\0" + (70000).to_bytes(4) + avro(FLIGHT | {"more": 1}, newer),
        b"\0\0\0\0\2" + avro(FLIGHT),
        b"\1\0\0\0\1" + avro(FLIGHT),
        b"\0\0",
        b"\0\0\0\0\1" + avro(FLIGHT | {"more": 1}, newer),
    ]
    parsed = made.parse(messages(values), PLANNED_AT)
    assert rows(parsed) == [ROW, ROW]
    assert [reason for _, reason in parsed.errors] == [
        "schema 2 is not in the registry file",
        "the message begins with byte 1, not with the zero byte of a schema registry",
        "the message has 2 bytes, and 5 stand before a record",
        "1 bytes are left behind the record: it was written with another schema",
    ]


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "null"},
        {"type": "fixed", "name": "F", "size": 0},
        {"type": "record", "name": "E", "fields": []},
        {"type": "record", "name": "E", "fields": [{"name": "n", "type": "null"}, {"name": "m", "type": "null"}]},
        {"type": "record", "name": "E", "fields": [{"name": "e", "type": "E"}]},
        "N",
    ],
    ids=str,
)
def test_avro_of_arrays_that_take_no_bytes_is_refused(tmp_path: Path, items: Any) -> None:
    """A message of ten bytes would name 2^62 items, and keep its task busy, and its memory, for ever."""
    named = {"name": "n", "type": {"type": "record", "name": "N", "fields": [{"name": "x", "type": "null"}]}}
    inner = {"type": "record", "name": "I", "fields": [{"name": "deep", "type": {"type": "array", "items": items}}]}
    below = {"name": "legs", "type": ["null", {"type": "map", "values": inner}]}
    schema = {"type": "record", "name": "R", "fields": [named, below]}
    (tmp_path / "f.avsc").write_text(json.dumps(schema))
    with pytest.raises(InputError, match="has an array of items that take no bytes"):
        parser({"format": "avro", "schema_file": "f.avsc"}, COLUMNS, tmp_path)


@pytest.mark.parametrize("items", [["null"], {"type": "array", "items": "int"}, "bytes", ["null", "R"]], ids=str)
def test_avro_of_arrays_whose_items_take_bytes_ends_with_the_message(tmp_path: Path, items: Any) -> None:
    """However many items a short message names."""
    many = {"name": "many", "type": {"type": "array", "items": items}}
    schema = {"type": "record", "name": "R", "fields": [many, {"name": "at", "type": "long"}]}
    config = {"format": "avro", "schema": schema, "time": {"path": "at", "format": "ms"}}
    claimed = b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"  # 2^62 - 1, as a long
    assert complaint(parse(config, claimed, columns={"time": "timestamp"}, base=tmp_path))


def test_avro_in_single_object_encoding(tmp_path: Path) -> None:
    """The schema is told by its fingerprint: that of "int" is the specification's own example."""
    assert fastavro.schema.fingerprint('"int"', "CRC-64-AVRO") == (0x7275D51A3F395C8F).to_bytes(8, "little").hex()
    canonical = fastavro.schema.to_parsing_canonical_form(AVRO)
    head = b"\xc3\x01" + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))
    config = {"format": "avro", "framing": "single_object", "schema": AVRO, "fields": FIELDS, "time": TIME}
    assert only(parse(config, head + avro(FLIGHT), columns=COLUMNS, base=tmp_path)) == ROW
    assert "marker of single-object encoding" in complaint(parse(config, b"\xc3\x02" + head[2:], columns=COLUMNS))
    assert "fingerprint 0000000000000000 is not known" in complaint(
        parse(config, b"\xc3\x01" + bytes(8) + avro(FLIGHT), columns=COLUMNS)
    )


def flight_class() -> Any:
    """Return the message's class, by another way than the parser's."""
    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(descriptor_set()).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("demo.Flight"))


def test_protocol_buffers(tmp_path: Path) -> None:
    """Times, wrappers, enums, maps, lists; what was not set is missing where the schema can tell, else its default."""
    (tmp_path / "f.desc").write_bytes(descriptor_set())
    config = {
        "format": "protobuf",
        "descriptor_set": "f.desc",
        "message": "demo.Flight",
        "fields": FIELDS,
        "time": TIME,
    }
    made = parser(config, COLUMNS, tmp_path)
    flight = flight_class()(name="N1", count=7, kind=1, price={"value": "12.5"}, tags={"w": 0.5})
    flight.at.FromDatetime(NOON)
    flight.legs.add(to="OSL").next.to = "BGO"
    empty = flight_class()()
    far = flight_class()(count=1 << 40)
    strange = flight_class()(kind=9)
    values = [each.SerializeToString() for each in (flight, empty, far, strange)]
    parsed = made.parse(messages([*values, b"\xff\xff", None]), PLANNED_AT)
    assert rows(parsed) == [ROW, {"count": 0, "kind": "JET"}]
    assert parsed.errors == [
        (2, "count: 1099511627776 is a number that does not fit int32"),
        (3, "kind: 9 is a number that does not fit string"),
        (4, "the message is no demo.Flight"),
        (5, "the message has no value"),
    ]
    absurd = flight_class()(at={"seconds": 10**14}).SerializeToString()
    assert rows(made.parse(messages([absurd]), PLANNED_AT)) == [{"count": 0, "kind": "JET"}]


def test_messagepack() -> None:
    """Maps with text or numbers for keys, its own times, bytes."""
    columns = {"time": "timestamp", "name": "string", "raw": "binary", "first": "int64"}
    config = {"format": "msgpack", "fields": {"name": "1.2", "first": "list.0"}, "time": TIME}
    value = msgspec.msgpack.encode({"at": NOON, 1: {"2": "x"}, "raw": b"\xff", "list": (5,)})
    assert only(parse(config, value, columns=columns)) == {"time": NOON, "name": "x", "raw": b"\xff", "first": 5}
    assert complaint(parse(config, b"\x05", columns=columns)) == "the message is no map"
    assert "trailing characters" in complaint(parse(config, value + b"\0", columns=columns))
    assert "truncated" in complaint(parse(config, value[:-1], columns=columns))
    named = config | {"fields": {"name": "list.x"}}
    assert complaint(parse(named, value, columns=columns)) == "list is a list, which has no x"


def test_delimited_text() -> None:
    """Quotes, line ends, missing values; several lines and other numbers of values are errors."""
    config = {"format": "delimited", "columns": ["at", "name", "count"], "delimiter": ";", "time": TIME}
    columns = {"time": "timestamp", "name": "string", "count": "int32"}
    row = {"time": NOON, "name": 'a;b\n"c"', "count": -3}
    assert only(parse(config, b'2023-01-01T12:00Z;"a;b\n""c""";-3\r\n', columns=columns)) == row
    assert only(parse(config, b";x;", columns=columns)) == {"name": "x"}
    assert only(parse(config | {"null_values": ["-"], "quote": None}, b'-;"x;-', columns=columns)) == {"name": '"x'}
    long = b";" + b"x" * 200_000 + b';"1"'
    assert len(only(parse(config, long, columns=columns))["name"]) == 200_000
    for value, said in [
        (b";x;1\n;y;2", "the message has several lines"),
        (b';"x";1\n;y;2', "Error: new-line character seen in unquoted field"),
        (b";x", "the line has 2 values, and 3 were expected"),
        (b";x;1;2", "the line has 4 values, and 3 were expected"),
        (b';"x;1', "unexpected end of data"),
        (b";x;1.5", "count: '1.5' is text that does not fit int32"),
        (b";\xff;1", "can't decode byte 0xff"),
        (b"", "the line has 1 values, and 3 were expected"),
    ]:
        assert said in complaint(parse(config, value, columns=columns)), value


def test_text_that_a_pattern_takes_apart() -> None:
    """Named groups are fields; what took part in no match is missing, as is what the configuration says."""
    pattern = r"(?P<ip>\S+) \[(?P<at>[^\]]+)\](?: (?P<size>\d+|-))?"
    config = {"format": "regex", "pattern": pattern, "null_values": ["-"], "time": {"path": "at", "format": "s"},
              "fields": {"name": "ip", "count": "size"}}  # fmt: skip
    columns = {"time": "timestamp", "name": "string", "count": "int32"}
    epoch = int(NOON.timestamp())
    assert only(parse(config, f"::1 [{epoch}] 5".encode(), columns=columns)) == {
        "time": NOON,
        "name": "::1",
        "count": 5,
    }
    assert only(parse(config, f"::1 [{epoch}] -".encode(), columns=columns)) == {"time": NOON, "name": "::1"}
    assert only(parse(config, f"::1 [{epoch}]".encode(), columns=columns)) == {"time": NOON, "name": "::1"}
    assert complaint(parse(config, b"x", columns=columns)) == "the message does not match the pattern"
    assert complaint(parse(config, f"::1 [{epoch}] 5\n".encode(), columns=columns)).startswith("the message does not")
    assert "is no number of s since" in complaint(parse(config, b"a [soon]", columns=columns))


@PATIENT
@given(values=st.lists(st.none() | st.binary(max_size=40), max_size=8), which=st.integers(0, 4))
def test_garbage_stops_nobody(values: list[bytes | None], which: int) -> None:
    """Whatever bytes come, each message is a row or an error, and a good one beside them is its row."""
    columns = {"time": "timestamp", "name": "string"}
    schema = {"type": "record", "name": "A", "fields": [{"name": "name", "type": "string"}]}
    config, good = [
        ({"format": "json"}, b'{"name":"x"}'),
        ({"format": "msgpack"}, msgspec.msgpack.encode({"name": "x"})),
        ({"format": "avro", "schema": schema}, avro({"name": "x"}, schema)),
        ({"format": "delimited", "columns": ["name"]}, b"x"),
        ({"format": "regex", "pattern": "(?P<name>x)"}, b"x"),
    ][which]
    parsed = parse({**config, "time": {"from": "none"}}, *values, good, columns=columns)
    assert parsed.rows.num_rows + len(parsed.errors) == len(values) + 1
    assert sorted([*parsed.positions.to_pylist(), *(position for position, _ in parsed.errors)]) == list(
        range(len(values) + 1)
    )
    assert parsed.rows.column("name")[-1].as_py() == "x"
