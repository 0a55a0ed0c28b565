"""The content checksum tells bags of rows apart, and nothing else."""

from __future__ import annotations

import datetime as dt
import decimal
import hashlib
import math
import struct

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drystone.errors import InputError
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.checksum import ContentChecksum
from drystone.testing.tables import arranged, cut, tables

_M = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15


def _sum(**columns: pa.Array) -> str:
    return ContentChecksum().update(pa.table(columns)).hex


def _fmix(x: int) -> int:
    x = (x + _GAMMA) & _M
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & _M
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & _M
    return x ^ (x >> 31)


def _text_hash(raw: bytes) -> int:
    total = 0
    for place in range(-(-len(raw) // 8)):
        word = int.from_bytes(raw[8 * place : 8 * place + 8], "little") ^ _fmix(((place + 1) * _GAMMA) & _M)
        word = (word * 0xFF51AFD7ED558CCD) & _M
        word ^= word >> 29
        total += word * 0xC4CEB9FE1A85EC53
    return _fmix((total + (len(raw) + 1) * _GAMMA) & _M)


@given(tables().flatmap(lambda table: st.tuples(st.just(table), arranged(table))))
def test_representation_does_not_matter(both: tuple[pa.Table, pa.Table]) -> None:
    """Chunks, slices and dictionaries make no difference."""
    one, other = (ContentChecksum().update(table) for table in both)
    assert one == other


@given(tables().flatmap(lambda table: st.tuples(st.just(table), cut(table, 3))))
def test_order_does_not_matter_and_parts_add_up(both: tuple[pa.Table, list[pa.Table]]) -> None:
    """The sum of the parts, in any order, is the checksum of the whole; what is subtracted is gone."""
    whole = ContentChecksum().update(both[0])
    parts = [ContentChecksum().update(part) for part in both[1]]
    assert parts[2] + parts[0] + parts[1] == whole
    assert whole - parts[0] - parts[1] == parts[2]


def _constants(name: str) -> tuple[int, int]:
    digest = hashlib.blake2b(name.encode(), digest_size=16, person=b"drystone-rows-1").digest()
    return int.from_bytes(digest[:8], "little") | 1, int.from_bytes(digest[8:], "little")


def _value(value: object) -> int:
    match value:
        case str():
            return _text_hash(value.encode())
        case bytes():
            return _text_hash(value)
        case float():
            bits = int.from_bytes(struct.pack("<d", value + 0.0), "little")
            bits = 0x7FF8000000000000 if math.isnan(value) else bits
            return bits ^ (bits >> 32)
        case dt.datetime():
            return (value - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
        case dt.date():
            return (value - dt.date(1970, 1, 1)).days
        case int():
            return value
    raise AssertionError(value)


def _by_definition(table: pa.Table) -> int:
    total = 0
    for row in table.to_pylist():
        t = 0
        for name, value in row.items():
            if value is not None and name != SOURCE_COLUMN:
                k, c = _constants(name)
                t += k * _value(value) + c
        total += _fmix(t & _M)
    return total & _M


@given(tables())
def test_the_definition_holds(table: pa.Table) -> None:
    """The vectorised checksum is the documented one, computed value by value."""
    assert ContentChecksum().update(table).value == _by_definition(table)


@given(
    st.lists(st.binary(max_size=40), max_size=40),
    st.lists(st.binary(min_size=30, max_size=200), max_size=12),
    st.data(),
)
def test_byte_strings_of_any_length_follow_the_definition(
    short: list[bytes], long: list[bytes], data: st.DataObject
) -> None:
    """Strings are hashed together as long as many go on, and then each by itself: all have the documented hash."""
    table = pa.table({"x": pa.array(data.draw(st.permutations([*short, *long])), pa.binary())})
    assert ContentChecksum().update(table).value == _by_definition(table)


def test_the_format_does_not_change() -> None:
    """A checksum that was recorded once is found again by every later version."""
    table = pa.table(
        {
            "time": pa.array([0, 1_000_000, None], pa.timestamp("us", "UTC")),
            "city": pa.array(["Köln", None, ""]),
            "count": pa.array([-1, 2, None], pa.int32()),
            "ratio": pa.array([0.5, float("nan"), -0.0]),
            "flag": pa.array([True, False, None]),
            "day": pa.array([1, None, -1], pa.int32()).cast(pa.date32()),
            "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-2.25")], pa.decimal128(9, 2)),
        }
    )
    assert ContentChecksum().update(table).hex == "ba4049b87c06e1d7"


def test_columns_of_nulls_and_wider_numbers_change_nothing() -> None:
    """Adding a column that is null throughout, and widening int32 or float32, keep the checksum."""
    values = [1, None, -7]
    narrow = _sum(a=pa.array(values, pa.int32()), b=pa.array([0.5, None, 2.0], pa.float32()))
    wide = _sum(b=pa.array([0.5, None, 2.0], pa.float64()), c=pa.nulls(3, pa.string()), a=pa.array(values, pa.int64()))
    assert narrow == wide


def test_units_of_time_change_nothing() -> None:
    """The same moments in seconds, milliseconds, microseconds or nanoseconds have the same checksum."""
    moments = pa.array([0, -5, 1_700_000_000, None], pa.timestamp("s"))
    sums = {_sum(t=moments.cast(pa.timestamp(unit))) for unit in ("s", "ms", "us", "ns")}
    assert len(sums) == 1


def test_a_single_nanosecond_counts() -> None:
    """Moments that differ only below the microsecond differ."""
    assert _sum(t=pa.array([1000], pa.timestamp("ns"))) != _sum(t=pa.array([1001], pa.timestamp("ns")))


def test_source_is_no_content() -> None:
    """`__source` is left out."""
    a = pa.array([1, 2])
    sourced = pa.table({"a": a, SOURCE_COLUMN: pa.array([b"x" * 16, b"y" * 16])})
    assert ContentChecksum().update(sourced).hex == _sum(a=a)


@given(tables(min_rows=2), st.data())
def test_any_change_of_one_value_shows(table: pa.Table, data: st.DataObject) -> None:
    """A changed value, and one that became null or ceased to be, change the checksum."""
    name = data.draw(st.sampled_from([n for n in table.column_names if n != SOURCE_COLUMN]))
    row, donor = data.draw(st.integers(0, table.num_rows - 1)), data.draw(st.integers(0, table.num_rows - 1))
    column = table.column(name).combine_chunks()
    changed = pa.concat_arrays([column.slice(0, row), column.slice(donor, 1), column.slice(row + 1)])
    other = table.set_column(table.column_names.index(name), name, changed)
    same = _same(column[row].as_py(), column[donor].as_py())
    assert (ContentChecksum().update(other) == ContentChecksum().update(table)) is same


def _same(one: object, other: object) -> bool:
    both_nan = isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other)
    return both_nan or one == other


def test_swapped_values_show() -> None:
    """Two values of a column that changed rows change the checksum, although each column holds the same values."""
    assert _sum(a=pa.array([1, 2]), b=pa.array([1, 2])) != _sum(a=pa.array([1, 2]), b=pa.array([2, 1]))


def test_values_in_another_column_show() -> None:
    """The same values under another name, or in two columns the other way round, are other content."""
    assert _sum(a=pa.array([1])) != _sum(b=pa.array([1]))
    assert _sum(a=pa.array([1]), b=pa.array([2])) != _sum(a=pa.array([2]), b=pa.array([1]))


def test_two_signs_flipped_at_once_show() -> None:
    """Floats of one row that all change sign do not cancel each other out."""
    here = _sum(lat=pa.array([48.1]), lon=pa.array([11.6]))
    assert here != _sum(lat=pa.array([-48.1]), lon=pa.array([-11.6]))


@given(tables(min_rows=1), st.data())
def test_lost_and_doubled_rows_show(table: pa.Table, data: st.DataObject) -> None:
    """A row less, and a row twice, change the checksum and the count."""
    row = data.draw(st.integers(0, table.num_rows - 1))
    whole = ContentChecksum().update(table)
    lost = pa.concat_tables([table.slice(0, row), table.slice(row + 1)])
    assert ContentChecksum().update(lost).value != whole.value
    assert ContentChecksum().update(pa.concat_tables([table, table.slice(row, 1)])).value != whole.value


def test_decimals_of_other_precision_are_the_same() -> None:
    """A decimal's precision is no content, its scale and value are."""
    price = pa.array([decimal.Decimal("1.50"), None])
    assert _sum(p=price.cast(pa.decimal128(9, 2))) == _sum(p=price.cast(pa.decimal128(30, 2)))
    assert _sum(p=price.cast(pa.decimal128(9, 2))) != _sum(p=price.cast(pa.decimal128(9, 3)))


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1]]),
        pa.array([1], pa.time64("us")),
        pa.array([1], pa.duration("s")),
        pa.array([1.0], pa.float16()),
        pa.array([1], pa.decimal256(60, 2)),
    ],
    ids=lambda array: str(array.type),
)
def test_other_types_are_refused(array: pa.Array) -> None:
    """A type without a definition is an error that names column and type, never a silent zero."""
    with pytest.raises(InputError, match="column odd has type"):
        _sum(odd=array)


def test_hexadecimal_form_is_checked() -> None:
    """What `hex` gives, `from_hex` reads; anything else is refused."""
    one = ContentChecksum(0x1F, 3)
    assert one.hex == "000000000000001f"
    assert ContentChecksum.from_hex(one.hex, 3) == one
    for wrong in ("", "1f", "000000000000001F", "000000000000001g"):
        with pytest.raises(InputError):
            ContentChecksum.from_hex(wrong)


def test_a_dictionary_larger_than_the_rows_is_no_matter() -> None:
    """A slice of a few rows of a big dictionary array has the checksum of its own rows."""
    whole = pa.array([f"value {number}" for number in range(1000)]).dictionary_encode()
    part = whole.slice(500, 3)
    assert _sum(a=part) == _sum(a=pa.array(["value 500", "value 501", "value 502"]))
