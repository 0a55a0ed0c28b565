"""JSON: whatever messages hold, reading them as a batch gives what decoding each alone gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from parsing import PLANNED_AT, complaint, messages, only, parse, parser, rows

from drystone.ingest.parsers import json_batches
from drystone.ingest.parsers.json_batches import JsonBatches
from drystone.ingest.parsers.one_by_one import OneByOne

COLUMNS = {
    "time": "timestamp", "s": "string", "i": "int32", "b": "int8", "f": "float64", "g": "float32", "t": "bool",
    "d": "date", "at": "timestamp", "ms": "timestamp", "deep": "int64",
}  # fmt: skip
CONFIG = {
    "format": "json",
    "time": {"path": "when"},
    "fields": {"deep": "o.p.q", "ms": {"path": "o.ms", "format": "ms"}},
}
NASTY = [
    b"", b" ", b"{}", b"{}{}", b"{}\n{}", b"{}\n", b"{} ", b" {}", b'{"i":', b'{"i":1}}', b'{"o":{"p":',
    b'{"q":1}}}', b"[{", b"}", b'"', b'{"s":"', b'"}', b'{"s":"}', b"{\n}", b'{"s":"\n"}', b"\0", b"{}\0",
    b'{"s":"\\u0000"}', b'{"x":NaN}', b'{"f":NaN}', b'{"f":-Infinity}', b'{"f":Inf}', b'{"x":[Infinity]}',
    b'{"f":-0}', b'{"f":-0.0}', b'{"i":-0}', b'{"f":1e999}', b'{"x":1e999}', b'{"f":' + b"1" * 5000 + b"}",
    b'{"x":' + b"1" * 5000 + b"}", b'{"g":1e39}', b'{"g":16777217}',
    b'{"g":1.00000017881393421514957253748434595763683319091796875001}', b'{"i":2147483648}', b'{"b":128}',
    b'{"i":1.0}', b'{"i":1e2}', b'{"i":1.5}', b'{"i":"1"}', b'{"i":true}', b'{"t":1}', b'{"t":true}', b'{"s":1}',
    b'{"s":null}', b'{"i":1,"i":2}', b'{"x":1,"x":2}', b'{"o":{"p":{"q":1,"q":2}}}', b'{"o":{"p":{"q":7}}}',
    b'{"o":5}', b'{"o":null}', b'{"o":{"p":[]}}', b'{"o":{"p":{}}}', b'{"s":"\xff"}', b'{"x":"\xff"}',
    b'{"s":"\\ud800"}', b'{"x":"\\ud800"}', b'{"s":"\\ud83d\\ude00"}', b'{"\\u0073":"escaped name"}',
    b'{"s":"\xed\xa0\x80"}', b"\xef\xbb\xbf{}", b'{"when":"2023-01-01"}', b'{"when":"2023-02-30"}',
    b'{"when":"2023-01-01T24:00:00"}', b'{"when":""}', b'{"when":5}', b'{"when":"2023-01-01T10:00:00.1234567Z"}',
    b'{"when":"2023-01-01 10:00:00.5+05:30"}', b'{"when":"2023-01-01T10"}', b'{"when":"0000-00-00"}',
    b'{"when":"1970-01-01T00:00:00Z"}', b'{"when":"9999-12-31T23:59:59-01:00"}', b'{"when":"2023-01-01T10:00:60Z"}',
    b'{"when":"2023-W01-1"}', b'{"when":"2023-01-01T10:00:00+2500"}', b'{"when":"2023-01-01T10:00+01:00"}',
    b'{"d":"2023-01-01"}', b'{"d":"2023-01-01T00:00:00"}', b'{"d":"2023-W01-1"}', b'{"d":"1969-12-31"}',
    b'{"at":"0001-01-01T00:00:00"}', b'{"at":"1000-01-01T00:00:00+01:00"}', b'{"o":{"ms":-1}}',
    b'{"o":{"ms":9223372036854775807}}', b'{"o":{"ms":253402300800000}}', b'{"o":{"ms":"12"}}', b'{"o":{"ms":1.5}}',
    b'{"x":' + b"[" * 500 + b"]" * 500 + b"}", b'{"x":' + b"[" * 5000 + b"]" * 5000 + b"}", b"{} {}", b"{}[]",
    b"{},", b'{"s":"Info: NaN"}', b"[]", b"5", b"null", b'{"s":"' + b"x" * 3000 + b'"}', b'{"x":[{},{}],"i":3}',
    b"{}\r\n",
]  # fmt: skip
GOOD = json.dumps(
    {"when": "2023-01-01T10:00:00Z", "s": "é", "i": 1, "b": -1, "f": 0.1, "g": 0.1, "t": False, "d": "2023-01-01",
     "at": "2023-01-01 10:00:00.5", "o": {"p": {"q": 5}, "ms": 1}, "x": [1, {}]},
    ensure_ascii=False,
).encode()  # fmt: skip


@pytest.fixture(scope="module")
def fast() -> JsonBatches:
    """The parser under test."""
    made = parser(CONFIG, COLUMNS)
    assert isinstance(made, JsonBatches)
    return made


@pytest.fixture(autouse=True)
def no_batch_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches, too, are read as such."""
    monkeypatch.setattr(json_batches, "_FEW", 1)


def differs(made: JsonBatches, values: list[bytes | None]) -> str:
    """Return what the two ways make of messages differently."""
    batch = messages(values)
    one, other = made.parse(batch, PLANNED_AT), made.slow.parse(batch, PLANNED_AT)
    if not one.positions.equals(other.positions) or one.errors != other.errors:
        return f"errors: {one.errors} and {other.errors}"
    assert one.rows.schema == other.rows.schema
    return "" if bits(one.rows) == bits(other.rows) else f"rows: {one.rows.to_pylist()} and {other.rows.to_pylist()}"


def bits(table: pa.Table) -> list[Any]:
    """Return the values of all columns, those of floats with the sign of a zero."""
    found = []
    for column in table.columns:
        plain = column.combine_chunks()
        plain.validate(full=True)
        floating = pa.types.is_floating(plain.type)
        signs = np.signbit(plain.fill_null(0).to_numpy(zero_copy_only=False)).tolist() if floating else []
        found.append((plain.cast(pa.int64()) if pa.types.is_timestamp(plain.type) else plain).to_pylist() + signs)
    return found


PIECES = st.sampled_from([*NASTY, GOOD, GOOD, GOOD, None])
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["2023-01-01"])
OBJECTS = st.dictionaries(
    st.sampled_from([*COLUMNS, "when", "o", "x"]),
    VALUES | st.dictionaries(st.sampled_from(["p", "ms"]), VALUES | st.dictionaries(st.just("q"), VALUES)),
).map(lambda found: json.dumps(found).encode())


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(PIECES | OBJECTS | st.binary(max_size=6), max_size=12))
def test_a_batch_is_what_its_messages_are(fast: JsonBatches, values: list[bytes | None]) -> None:
    """The same rows, bit by bit, for the same messages, and the same errors: whatever stands beside whatever."""
    assert differs(fast, values) == ""


@pytest.mark.parametrize("value", NASTY, ids=range(len(NASTY)))
def test_each_oddity_between_good_messages(fast: JsonBatches, value: bytes) -> None:
    """One odd message changes nothing about its neighbours."""
    assert differs(fast, [GOOD, value, GOOD]) == ""
    parsed = fast.parse(messages([GOOD, value, GOOD]), PLANNED_AT)
    assert {0, 2} <= set(parsed.positions.to_pylist())


def everything_is_certain(patch: pytest.MonkeyPatch) -> None:
    """No message is looked at before Arrow reads them all."""
    patch.setattr(json_batches, "_certain", lambda values: values.is_valid().to_numpy(zero_copy_only=False).copy())


def objects_may_end_anywhere(patch: pytest.MonkeyPatch) -> None:
    """A message need not end with its object."""
    patch.setattr(json_batches.pc, "ends_with", lambda values, _end: values.is_valid())


def nothing_is_doubtful(patch: pytest.MonkeyPatch) -> None:
    """What Arrow made of a number is what it says."""
    real = json_batches._converted
    patch.setattr(json_batches, "_converted", lambda *them: (real(*them)[0], np.zeros(len(them[0]), bool)))


def oddities_are_fine(patch: pytest.MonkeyPatch) -> None:
    """NaN is JSON, and so is half of a pair."""
    patch.setattr(json_batches, "_HINTS", ())


PLANTS = [everything_is_certain, objects_may_end_anywhere, nothing_is_doubtful, oddities_are_fine]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_shortcut_is_seen(
    fast: JsonBatches, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With this shortcut some batch gives other rows than its messages."""
    batches = [[GOOD, value, GOOD] for value in NASTY]
    batches += [[b'{"o":', b'{"p":{"q":1}}}', b"{}{}", GOOD], [b"{}{}", b"{}\0", b"{}"]]
    assert not any(differs(fast, list(batch)) for batch in batches)
    plant(monkeypatch)
    assert any(differs(fast, list(batch)) for batch in batches), plant.__doc__


def test_good_messages_are_never_decoded_alone(fast: JsonBatches, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fast way is taken; with a few bad messages among many it is left for few others."""
    alone: list[int] = []
    real = OneByOne.some
    monkeypatch.setattr(json_batches, "_FEW", 32)
    monkeypatch.setattr(OneByOne, "some", lambda *them: (alone.append(len(them[1])), real(*them))[1])
    values: list[bytes | None] = [GOOD] * 5000
    assert fast.parse(messages(values), PLANNED_AT).rows.num_rows == 5000
    assert alone == []
    for position in (0, 777, 4999):
        values[position] = b'{"i":"no"}'
    assert [position for position, _ in fast.parse(messages(values), PLANNED_AT).errors] == [0, 777, 4999]
    assert 3 <= sum(alone) <= 3 * 64
    alone.clear()
    bad: list[bytes | None] = [GOOD, b'{"i":1.5}'] * 2500
    assert len(fast.parse(messages(bad), PLANNED_AT).errors) == 2500
    assert sum(alone) >= 2500


def test_what_a_message_becomes() -> None:
    """Every type, nested fields, list indexes, names with dots; what is missing is null."""
    columns = COLUMNS | {"bytes": "binary", "price": "decimal(9, 2)", "last": "string", "dotted": "string"}
    config = CONFIG | {"fields": CONFIG["fields"] | {"last": "l.-1.n", "dotted": ["a.b", "c"]}}  # type: ignore[operator]
    more = {"bytes": "ab", "price": 1.10, "l": [1, {"n": "z"}], "a.b": {"c": "d"}}
    row = only(parse(config, json.dumps(json.loads(GOOD) | more).encode(), columns=columns))
    assert row == {
        "time": datetime(2023, 1, 1, 10, tzinfo=UTC), "s": "é", "i": 1, "b": -1, "f": 0.1, "g": float(np.float32(0.1)),
        "t": False, "d": date(2023, 1, 1), "at": datetime(2023, 1, 1, 10, 0, 0, 500_000, UTC),
        "ms": datetime(1970, 1, 1, 0, 0, 0, 1000, UTC), "deep": 5, "bytes": b"ab", "price": Decimal("1.10"),
        "last": "z", "dotted": "d",
    }  # fmt: skip
    assert rows(parse(config, b"{}", columns=columns)) == [{}]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "the message has no value"),
        (b"", "Input data was truncated"),
        (b"{} {}", "trailing characters"),
        (b"[1]", "Expected `object`, got `array`"),
        (b'{"i": "1"}', "i: '1' is text that does not fit int32"),
        (b'{"i": 3000000000}', "i: 3000000000 is a number that does not fit int32"),
        (b'{"i": 1.5}', "i: 1.5 is a number that does not fit int32"),
        (b'{"g": 1e300}', "g: 1e+300 is a number that does not fit float32"),
        (b'{"t": 0}', "t: 0 is a number that does not fit bool"),
        (b'{"s": ["x"]}', "s: ['x'] is a list that does not fit string"),
        (b'{"d": "2023-01-01T10:00:00"}', "d: '2023-01-01T10:00:00' is text that does not fit date"),
        (b'{"when": "yesterday"}', "when: 'yesterday' is no time in ISO-8601"),
        (b'{"at": "yesterday"}', "at: 'yesterday' is no time in ISO-8601"),
        (b'{"o": 5}', "Expected `object | null`, got `int` - at `$.o`"),
    ],
)
def test_what_is_wrong_is_said(value: bytes | None, said: str) -> None:
    """Of each bad message in one line, with the field."""
    assert said in complaint(parse(CONFIG, value, columns=COLUMNS))
