"""Split keys cut the rows of a group of blocks into about equal shares, by the index files alone."""

from __future__ import annotations

import math
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from drystone.rows import keys
from drystone.rows.index import IndexEntry
from drystone.rows.split import in_range, split_keys


def entries_of(rows: list[keys.Key], group_rows: int) -> list[IndexEntry]:
    """Return the index of one sorted block."""
    ordered = sorted(rows, key=keys.rank)
    found = []
    for number, start in enumerate(range(0, len(ordered), group_rows)):
        part = ordered[start : start + group_rows]
        by_column = [sorted(((value,) for value in column), key=keys.rank) for column in zip(*part, strict=True)]
        mins = tuple(column[0][0] for column in by_column)
        maxs = tuple(column[-1][0] for column in by_column)
        found.append(IndexEntry("chunks/000001.parquet", number, 0, 0, len(part), 0, 1, mins, maxs))
    return found


def shares(rows: list[keys.Key], cuts: list[keys.Key]) -> list[int]:
    """Return how many rows each output gets."""
    bounds = [None, *cuts, None]
    return [sum(within(row, low, high) for row in rows) for low, high in pairwise(bounds)]


def within(row: keys.Key, low: keys.Key | None, high: keys.Key | None) -> bool:
    """Tell whether a row lies in [low, high)."""
    above = low is None or keys.rank(row[: len(low)]) >= keys.rank(low)
    return above and (high is None or keys.rank(row[: len(high)]) < keys.rank(high))


def test_interleaving_blocks_are_cut_evenly() -> None:
    """Blocks of one row group each, all over the same range, still give equal shares: bounds are interpolated."""
    blocks = [[(n * 200 + b,) for n in range(600)] for b in range(200)]
    entries = [entry for block in blocks for entry in entries_of(block, 600)]
    cuts = split_keys(entries, 4)
    found = shares([row for block in blocks for row in block], cuts)
    assert len(found) == 4
    assert max(found) - min(found) < 0.02 * 120_000


def test_skewed_rows_are_cut_by_what_the_index_tells() -> None:
    """Where rows are dense, row groups are narrow, and cuts lie closer."""
    rows: list[keys.Key] = [(int(n**3),) for n in range(20_000)]
    found = shares(rows, split_keys(entries_of(rows, 500), 5))
    assert len(found) == 5
    assert max(found) - min(found) < 0.1 * len(rows)


def test_a_first_column_of_few_values_is_cut_inside_of_them() -> None:
    """Rows that share the first column's value are cut by the next one."""
    rows: list[keys.Key] = [("AA", n) for n in range(6000)] + [("UA", n) for n in range(2000)]
    cuts = split_keys(entries_of(rows, 500), 4)
    assert [cut[0] for cut in cuts] == ["AA", "AA", "AA"] or cuts[-1] == ("UA",)
    assert any(len(cut) == 2 for cut in cuts)
    found = shares(rows, cuts)
    assert max(found) <= 2500


def test_strings_are_cut_at_bounds_of_row_groups() -> None:
    """Between strings there is nothing to interpolate, so cuts are values that were seen."""
    rows: list[keys.Key] = [(f"{n:05}",) for n in range(10_000)]
    entries = entries_of(rows, 500)
    cuts = split_keys(entries, 4)
    assert all(cut[0] in {value for e in entries for value in (*e.mins, *e.maxs)} for cut in cuts)
    found = shares(rows, cuts)
    assert len(found) == 4
    assert max(found) - min(found) <= 1000


def test_rows_that_cannot_be_told_apart_stay_together() -> None:
    """One key for all rows gives one share, and so does no row at all."""
    assert split_keys(entries_of([(1, "a")] * 1000, 100), 4) == []
    assert split_keys([], 4) == []


_VALUES = st.none() | st.integers(-5, 5) | st.sampled_from([math.nan, 0.5, math.inf])


@given(
    st.lists(st.tuples(_VALUES, st.none() | st.sampled_from("abc"), st.integers(0, 3)), max_size=60),
    st.integers(1, 20),
    st.integers(1, 6),
)
def test_every_row_belongs_to_one_output(rows: list[keys.Key], group_rows: int, outputs: int) -> None:
    """Keys ascend, so that every row lies in just one range, and there are no more outputs than asked for."""
    cuts = split_keys(entries_of(rows, group_rows), outputs)
    assert len(cuts) < outputs
    assert all(keys.rank(a) < keys.rank(b) for a, b in pairwise(cuts))
    assert sum(shares(rows, cuts)) == len(rows)


@given(
    st.lists(st.tuples(_VALUES, st.none() | st.sampled_from("abc")), min_size=1, max_size=40),
    st.integers(1, 10),
    st.tuples(_VALUES, st.none() | st.sampled_from("abcd")),
    st.tuples(_VALUES, st.none() | st.sampled_from("abcd")),
    st.integers(1, 2),
    st.integers(1, 2),
)
def test_no_row_group_with_rows_in_range_is_skipped(
    rows: list[keys.Key], group_rows: int, low: keys.Key, high: keys.Key, low_size: int, high_size: int
) -> None:
    """`in_range` is False only for row groups that hold no row of the range."""
    low, high = low[:low_size], high[:high_size]
    ordered = sorted(rows, key=keys.rank)
    for number, entry in enumerate(entries_of(rows, group_rows)):
        part = ordered[number * group_rows : (number + 1) * group_rows]
        if any(within(row, low, high) for row in part):
            assert in_range(entry, low, high)


def test_row_groups_out_of_range_are_skipped() -> None:
    """A range needs few of many row groups."""
    entries = entries_of([(n,) for n in range(1000)], 10)
    assert sum(in_range(entry, (500,), (520,)) for entry in entries) == 2
