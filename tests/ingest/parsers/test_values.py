"""Values become a column's exactly, or are an error; times are believed or unknown; splits have safe names."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import PATIENT
from parsing import PLANNED_AT, messages, only, parse, parser, rows

from drystone.ingest.parsers.convert import column, converter
from drystone.ingest.parsers.splits import MISSING, safe
from drystone.ingest.parsers.times import TimeLimits, microseconds

DAY = 86_400_000
FITS: list[tuple[str, object, object]] = [
    ("int8", -128, -128),
    ("int64", (1 << 63) - 1, (1 << 63) - 1),
    ("int32", 5.0, 5),
    ("int32", Decimal("7.0"), 7),
    ("float64", 1, 1.0),
    ("float32", 1.5, 1.5),
    ("float64", Decimal("0.1"), 0.1),
    ("bool", False, False),
    ("string", "é", "é"),
    ("binary", b"\xff", b"\xff"),
    ("binary", "é", b"\xc3\xa9"),
    ("date", "2013-01-31", date(2013, 1, 31)),
    ("date", date(1969, 12, 31), date(1969, 12, 31)),
    ("timestamp", "2013-01-31T05:00:00+05:00", datetime(2013, 1, 31, tzinfo=UTC)),
    ("timestamp", datetime(2013, 1, 31), datetime(2013, 1, 31, tzinfo=UTC)),  # noqa: DTZ001 - naive on purpose
    ("decimal(5, 2)", "123.45", Decimal("123.45")),
    ("decimal(5, 2)", 1, Decimal("1.00")),
    ("decimal(5, 2)", 1.1, Decimal("1.10")),
    ("decimal(38, 0)", 10**37, Decimal(10**37)),
    ("decimal(5, 2)", Decimal("1.2300"), Decimal("1.23")),
]


@pytest.mark.parametrize(("kind", "value", "found"), FITS, ids=str)
def test_what_fits_is_taken_exactly(kind: str, value: object, found: object) -> None:
    """Whatever format it came from."""
    assert column([converter(kind, "iso8601", text=False)(value), None], kind).to_pylist() == [found, None]


MISFITS: list[tuple[str, object]] = [
    ("int8", 128), ("int64", 1 << 63), ("int32", 1.5), ("int32", True), ("int32", "1"), ("int32", math.nan),
    ("int64", 1e18), ("int64", Decimal("1e400")), ("float64", "1"), ("float64", True), ("float64", 10**400),
    ("float32", 1e39), ("float64", Decimal("1e999")), ("bool", 1), ("bool", "true"), ("string", 1), ("string", b"a"),
    ("string", "\ud800"), ("string", ["a"]), ("binary", 1), ("date", "2013-01-31T00:00"), ("date", 1),
    ("date", "x" * 10),
    ("date", datetime(2013, 1, 31, tzinfo=UTC)), ("timestamp", 1), ("timestamp", "soon"), ("decimal(5, 2)", "1.234"),
    ("decimal(5, 2)", 1000), ("decimal(5, 2)", True), ("decimal(5, 2)", "NaN"), ("decimal(5, 2)", Decimal("Infinity")),
    ("decimal(5, 2)", "1e999999999"), ("decimal(5, 2)", math.nan), ("decimal(5, 2)", None.__class__),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), MISFITS, ids=str)
def test_what_does_not_fit_is_an_error(kind: str, value: object) -> None:
    """In one line that is not as long as the value."""
    with pytest.raises(ValueError, match=r".") as caught:
        converter(kind, "iso8601", text=False)(value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 200


TEXTS: list[tuple[str, str, object]] = [
    ("int32", "-12", -12), ("int32", "+7", 7), ("float64", "1e3", 1000.0), ("float64", ".5", 0.5),
    ("bool", "TRUE", True), ("bool", "0", False), ("decimal(4, 1)", "1.5", Decimal("1.5")),
]  # fmt: skip
NO_TEXTS = [
    ("int32", "1.0"), ("int32", " 1"), ("int32", "1_0"), ("int32", "\u0661"), ("int32", "9" * 41), ("float64", "nan"),
    ("float64", "1e999"), ("float64", "1_0.0"), ("bool", "yes"),
]  # fmt: skip


def test_text_formats_read_numbers_as_people_write_them() -> None:
    """And nothing that only Python takes for a number."""
    for kind, text, found in TEXTS:
        assert column([converter(kind, "iso8601", text=True)(text)], kind).to_pylist() == [found]
    for kind, text in NO_TEXTS:
        with pytest.raises(ValueError, match="does not fit"):
            converter(kind, "iso8601", text=True)(text)


MOMENTS = st.datetimes(timezones=st.just(UTC))


@PATIENT
@given(moment=MOMENTS, offset=st.integers(-23 * 60, 23 * 60))
def test_a_time_is_the_same_in_every_spelling(moment: datetime, offset: int) -> None:
    """ISO-8601 with any offset or none, and numbers of any unit, as text or not."""
    expected = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    assert microseconds(moment, "iso8601") == expected
    assert microseconds(moment.replace(tzinfo=None).isoformat(), "iso8601") == expected
    zone = f"{'-' if offset < 0 else '+'}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"
    local = moment.replace(tzinfo=None).isoformat() + zone
    assert microseconds(local, "iso8601") == expected - offset * 60_000_000
    for how, factor in (("s", 1_000_000), ("ms", 1_000), ("us", 1)):
        assert microseconds(Decimal(expected) / factor, how) == expected  # type: ignore[arg-type]
        assert microseconds(str(expected // factor), how) == expected // factor * factor  # type: ignore[arg-type]
    assert microseconds(expected * 1000 + 999, "ns") == expected


BELIEVED: list[tuple[str, object, datetime | None]] = [
    ("ms", PLANNED_AT, datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)),
    ("s", PLANNED_AT / 1000 + 0.25, datetime(2023, 11, 14, 22, 13, 20, 250_000, UTC)),
    ("ms", PLANNED_AT + DAY, datetime(2023, 11, 15, 22, 13, 20, tzinfo=UTC)),
    ("ms", PLANNED_AT + DAY + 1, None),
    ("ms", 631_152_000_000, datetime(1990, 1, 1, tzinfo=UTC)),
    ("ms", 631_151_999_999, None),
    ("ms", 0, None),
    ("ms", -1, None),
    ("ns", PLANNED_AT, None),
    ("s", PLANNED_AT, None),
    ("s", 10**30, None),
    ("ms", None, None),
    ("ms", "", None),
]


@pytest.mark.parametrize(("how", "value", "found"), BELIEVED, ids=str)
def test_what_is_missing_or_absurd_is_unknown(how: str, value: object, found: datetime | None) -> None:
    """Never 1970, and judged by the plan's time alone, however often it is tried."""
    config = {"format": "json", "time": {"path": "a.t", "format": how}}
    message = msgspec.json.encode({"a": {"t": value}})
    for slow in (False, True):
        made = parser(config | ({"fields": {"name": ["n", 0]}} if slow else {}))
        (row,) = made.parse(messages([message]), PLANNED_AT).rows.to_pylist()
        assert row["time"] == found


def test_limits_are_the_configurations_and_dates_are_times_too() -> None:
    """Limits move what is believed; a column of dates takes the day, also before 1970."""
    config = {"format": "json", "time": {"path": "t", "format": "s"}}
    wide = TimeLimits(-(10**14), 10**14)
    message = b'{"t":-1}'
    assert only(parse(config, message, limits=wide))["time"] == datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert rows(parse(config, message)) == [{}]
    dates = {"time": "date"}
    assert only(parse(config, message, limits=wide, columns=dates)) == {"time": date(1969, 12, 31)}
    assert only(parse(config, b'{"t":1357000000}', columns=dates)) == {"time": date(2013, 1, 1)}


def test_kafkas_own_time_and_none() -> None:
    """Also judged; and a stream may do without."""
    for source, found in (
        ("kafka", [datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC), None, None]),
        ("none", [None] * 3),
    ):
        config = {"format": "json", "time": {"from": source}}
        parsed = parse(config, *[b"{}"] * 3, times=[PLANNED_AT, None, 5])
        assert parsed.rows.column("time").to_pylist() == found


@PATIENT
@given(one=st.text(max_size=100), other=st.text(max_size=100))
def test_names_of_splits_are_safe_and_tell_values_apart(one: str, other: str) -> None:
    """Nothing in them can mean anything in a key, or is longer than a key can bear."""
    names = [safe(text) for text in (one, other)]
    assert all(re.fullmatch(r"[A-Za-z0-9._%~-]{0,80}", name) for name in names)
    assert (names[0] == names[1]) == (one == other)
    assert MISSING not in names


def test_rows_are_split_by_columns_kafkas_time_and_offsets() -> None:
    """All parts together, in the order of the configuration; what is missing has a name of its own."""
    config: dict[str, Any] = {"format": "json", "time": {"from": "kafka"}}
    assert parse(config, b"{}").splits is None
    config["split"] = [{"column": "name"}, {"kafka_time": "hour"}, {"kafka_time": "date"}, {"offsets": 2}]
    values = [b'{"name":"a/../b"}', b"{}", b"bad", b'{"name":""}', b'{"name":"__null__"}']
    parsed = parse(config, *values, times=[PLANNED_AT, PLANNED_AT + 3_600_000, 0, None, PLANNED_AT])
    hour, day = "kafka_hour=2023-11-14T22", "kafka_date=2023-11-14"
    assert parsed.splits is not None
    assert parsed.splits.to_pylist() == [
        f"name=a%2F..%2Fb/{hour}/{day}/offset={100:020d}",
        f"name=__null__/kafka_hour=2023-11-14T23/{day}/offset={100:020d}",
        f"name=/kafka_hour=__null__/kafka_date=__null__/offset={102:020d}",
        f"name=%5F_null__/{hour}/{day}/offset={104:020d}",
    ]
    config["split"] = [{"column": "count"}]
    assert parse(config, b'{"count":5}', b"{}").splits.to_pylist() == ["count=5", "count=__null__"]  # type: ignore[union-attr]
    assert parse(config).splits.to_pylist() == []  # type: ignore[union-attr]
