"""The order of keys is one and the same, whether Arrow, numpy or Python compares them."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drystone.errors import InputError
from drystone.rows import columns, keys
from drystone.rows.sort_columns import KeyReader
from drystone.testing.tables import SCHEMA, arranged, tables

SORTABLE = tuple(name for name in SCHEMA.names if name != "__source")
sort_keys = st.lists(st.sampled_from(SORTABLE), min_size=1, max_size=3, unique=True)


def _all_keys(table: pa.Table, sort_key: list[str]) -> list[keys.Key]:
    arrays = [columns.whole(table.column(name)) for name in sort_key]
    return [keys.key_at(arrays, row) for row in range(table.num_rows)]


@given(tables(), sort_keys)
def test_sorting_is_what_python_sorts(table: pa.Table, sort_key: list[str]) -> None:
    """`sort_table` gives the order in which Python sorts ranks, equal keys staying in their order."""
    found = _all_keys(keys.sort_table(table, sort_key), sort_key)
    expected = sorted(_all_keys(table, sort_key), key=keys.rank)
    assert [keys.rank(key) for key in found] == [keys.rank(key) for key in expected]


@given(tables(), sort_keys)
def test_sorting_is_what_arrow_sorts(table: pa.Table, sort_key: list[str]) -> None:
    """`sort_table` gives Arrow's own order: NaN after numbers, nulls at the end."""
    found = _all_keys(keys.sort_table(table, sort_key), sort_key)
    arrow = _all_keys(table.sort_by([(name, "ascending") for name in sort_key]), sort_key)
    assert [keys.rank(key) for key in found] == [keys.rank(key) for key in arrow]


@given(tables(min_rows=1).flatmap(lambda table: st.tuples(st.just(table), arranged(table))), sort_keys)
def test_sorting_is_stable_whatever_the_representation(both: tuple[pa.Table, pa.Table], sort_key: list[str]) -> None:
    """Rows with equal keys keep their order; chunks and dictionaries make no difference."""
    numbered = [t.append_column("number", pa.array(range(t.num_rows))) for t in both]
    one, other = (keys.sort_table(t, sort_key).column("number").to_pylist() for t in numbered)
    assert one == other
    ranks = [keys.rank(key) for key in _all_keys(both[0], sort_key)]
    assert one == sorted(range(len(ranks)), key=lambda row: (ranks[row], row))


@given(tables(), sort_keys)
def test_descents_are_found(table: pa.Table, sort_key: list[str]) -> None:
    """Just the rows are found whose key is less than that of the row before."""
    found = keys.descents(keys.digits(keys.sort_arrays(table, sort_key), table.num_rows)).tolist()
    ranks = [keys.rank(key) for key in _all_keys(table, sort_key)]
    assert found == [row for row in range(1, len(ranks)) if ranks[row] < ranks[row - 1]]


@given(tables(min_rows=1), sort_keys, st.data())
def test_bisection_counts_the_rows_below_a_key(table: pa.Table, sort_key: list[str], data: st.DataObject) -> None:
    """`rows_below` counts as a comparison row by row does, for keys that are there, others, and prefixes."""
    ordered = keys.sort_table(table, sort_key)
    other = data.draw(tables(min_rows=1))
    key = data.draw(st.sampled_from(_all_keys(ordered, sort_key) + _all_keys(other, sort_key)))
    key = key[: data.draw(st.integers(0, len(key)))]
    found = KeyReader(sort_key).columns(ordered.combine_chunks().to_batches()[0])
    ranks = [keys.rank(row[: len(key)]) for row in _all_keys(ordered, sort_key)]
    assert found.rows_below(key, inclusive=False) == sum(rank < keys.rank(key) for rank in ranks)
    assert found.rows_below(key, inclusive=True) == sum(rank <= keys.rank(key) for rank in ranks)


def test_null_comes_after_the_greatest_number() -> None:
    """A null has no number to stand for it where a column uses all 64 bits, and still comes last."""
    table = pa.table({"a": pa.array([None, (1 << 63) - 1, -(1 << 63)], pa.int64())})
    assert keys.sort_table(table, ["a"]).column("a").to_pylist() == [-(1 << 63), (1 << 63) - 1, None]


def test_wide_keys_need_several_digits() -> None:
    """A key of more bits than one number has is compared as a whole."""
    big = 1 << 62
    rows = [(-big, "b", big), (-big, "b", -big), (big, "a", 0), (-big, "a", big)]
    table = pa.table({"x": [r[0] for r in rows], "s": [r[1] for r in rows], "y": [r[2] for r in rows]})
    found = keys.sort_table(table, ["x", "s", "y"])
    assert list(zip(*(found.column(n).to_pylist() for n in "xsy"), strict=True)) == sorted(rows)


def test_values_survive_json() -> None:
    """Keys hold plain values: microseconds, days, 0 and 1, text, None."""
    table = pa.table(
        {
            "time": pa.array([1_500], pa.timestamp("ms", "UTC")),
            "day": pa.array([3], pa.date32()),
            "flag": [True],
            "city": pa.array(["Köln"]).dictionary_encode(),
            "none": pa.array([None], pa.int8()),
        }
    )
    assert keys.key_at(keys.sort_arrays(table, table.column_names), 0) == (1_500_000, 3, 1, "Köln", None)


def test_nan_comes_between_numbers_and_null() -> None:
    """The greatest number is less than NaN, and NaN is less than null."""
    order = [(None,), (math.nan,), (math.inf,), (1.0,), (-0.0,), (-math.inf,)]
    assert sorted(order, key=keys.rank) == order[::-1]


@pytest.mark.parametrize("kind", [pa.binary(), pa.decimal128(5, 2), pa.timestamp("ns"), pa.list_(pa.int8())], ids=str)
def test_other_types_cannot_be_sorted_by(kind: pa.DataType) -> None:
    """A column that has no order here is refused by name."""
    with pytest.raises(InputError, match="odd"):
        keys.check_sortable("odd", kind)


def test_a_missing_sort_column_is_named() -> None:
    """The error names the column, and those that there are."""
    with pytest.raises(InputError, match=r"no column city.*There are a, b"):
        keys.sort_arrays(pa.table({"a": [1], "b": [1]}), ["city"])
