"""The merge gives every row of its inputs once, in order, whatever their batches and encodings."""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drystone.errors import InvariantError
from drystone.rows import columns, keys
from drystone.rows.checksum import ContentChecksum
from drystone.rows.merge import merge_sorted
from drystone.testing.tables import SCHEMA, arranged, cut, tables

SORTABLE = tuple(name for name in SCHEMA.names if name != "__source")
sort_keys = st.lists(st.sampled_from(SORTABLE), min_size=1, max_size=3, unique=True)


@st.composite
def sorted_inputs(draw: st.DrawFn) -> tuple[list[str], pa.Table, list[pa.Table]]:
    """Generate a sort key, all rows sorted by it, and the same rows dealt out to sorted inputs."""
    sort_key = draw(sort_keys)
    whole = keys.sort_table(draw(tables()), sort_key)
    parts = draw(cut(whole, draw(st.integers(1, 4))))
    return sort_key, whole, [draw(arranged(part)) for part in parts]


def _ranks(table: pa.Table, sort_key: list[str]) -> list[keys.Rank]:
    arrays = [columns.whole(table.column(name)) for name in sort_key]
    return [keys.rank(keys.key_at(arrays, row)) for row in range(table.num_rows)]


def _plain(tables_: list[pa.Table]) -> pa.Table:
    return pa.concat_tables([table.cast(SCHEMA) for table in tables_] or [SCHEMA.empty_table()])


@given(sorted_inputs(), st.integers(1, 8), st.integers(1, 9))
def test_every_row_comes_once_and_in_order(
    case: tuple[list[str], pa.Table, list[pa.Table]], batch_rows: int, out_rows: int
) -> None:
    """The output is sorted, has the content of the inputs, and tables that end at multiples of `out_rows`."""
    sort_key, whole, parts = case
    inputs = [iter(part.to_batches(max_chunksize=batch_rows)) for part in parts]
    out = list(merge_sorted(inputs, sort_key, batch_rows=batch_rows, out_rows=out_rows))
    found = _plain(out)
    assert ContentChecksum().update(found) == ContentChecksum().update(whole)
    assert _ranks(found, sort_key) == _ranks(whole, sort_key)
    ends = list(itertools.accumulate(table.num_rows for table in out))
    assert set(range(out_rows, whole.num_rows, out_rows)) <= set(ends)
    assert all(0 < table.num_rows <= out_rows for table in out)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(sorted_inputs(), st.integers(2, 3))
def test_passes_through_temporary_files_change_nothing(
    tmp_path: Path, case: tuple[list[str], pa.Table, list[pa.Table]], fan_in: int
) -> None:
    """With more inputs than fit at once the same rows come, in order, and no temporary file is left."""
    sort_key, whole, parts = case
    parts = [*parts, *([SCHEMA.empty_table()] * 3)]
    inputs = [iter(part.to_batches()) for part in parts]
    found = _plain(list(merge_sorted(inputs, sort_key, batch_rows=4, fan_in=fan_in, temp=tmp_path)))
    assert ContentChecksum().update(found) == ContentChecksum().update(whole)
    assert _ranks(found, sort_key) == _ranks(whole, sort_key)
    assert list(tmp_path.iterdir()) == []


def test_many_passes(tmp_path: Path) -> None:
    """Forty inputs, three at a time, take four passes."""
    inputs = [iter(pa.table({"a": [n, n + 40, n + 80]}).to_batches()) for n in range(40)]
    found = pa.concat_tables(merge_sorted(inputs, ["a"], fan_in=3, temp=tmp_path))
    assert found.column("a").to_pylist() == list(range(120))
    assert list(tmp_path.iterdir()) == []


def test_reading_ahead_changes_nothing() -> None:
    """With a pool that reads ahead, the same rows come in the same order."""
    tables_ = [pa.table({"a": range(n, 5000, 7), "s": [str(v) for v in range(n, 5000, 7)]}) for n in range(7)]

    def run(pool: ThreadPoolExecutor | None) -> list[int]:
        inputs = [iter(table.to_batches(max_chunksize=50)) for table in tables_]
        out = merge_sorted(inputs, ["a"], batch_rows=100, pool=pool)
        return [value for table in out for value in table.column("a").to_pylist()]

    with ThreadPoolExecutor(2) as pool:
        assert run(pool) == run(None) == list(range(5000))


def test_a_lone_input_passes_through_without_a_copy() -> None:
    """Where only one input has rows in a window, they are the very buffers that were read."""
    batches = [pa.record_batch({"a": pa.array(range(n, n + 10), pa.int64())}) for n in range(0, 100, 10)]
    out = list(merge_sorted([iter(batches[::2]), iter(batches[1::2])], ["a"], batch_rows=10))
    addresses = {batch.column(0).buffers()[1].address for batch in batches}
    assert {table.column(0).chunk(0).buffers()[1].address for table in out} <= addresses
    assert [v for table in out for v in table.column("a").to_pylist()] == list(range(100))


@pytest.mark.parametrize("inputs", [1, 3])
@pytest.mark.parametrize("batch_rows", [1, 2, 3, 100])
@pytest.mark.parametrize("wrong", [1, 5, 9])
def test_an_input_that_is_not_sorted_is_named(inputs: int, batch_rows: int, wrong: int) -> None:
    """A single row out of order, inside a batch or between two, is an error that names the input."""
    values = [2 * row for row in range(10)]
    values[wrong] = values[wrong - 1] - 1
    tables_ = [pa.table({"a": values if n == 0 else list(range(10))}) for n in range(inputs)]
    batches = [iter(table.to_batches(max_chunksize=batch_rows)) for table in tables_]
    names = [f"block {n}" for n in range(inputs)]
    with pytest.raises(InvariantError, match="block 0 is not sorted by a"):
        list(merge_sorted(batches, ["a"], names=names, batch_rows=batch_rows))


@given(tables(min_rows=2), sort_keys, st.data())
def test_any_disorder_is_found(table: pa.Table, sort_key: list[str], data: st.DataObject) -> None:
    """Rows in any order but the right one are refused, however they are cut into batches."""
    batch_rows = data.draw(st.integers(1, 5))
    ranks = _ranks(table, sort_key)
    inputs = [iter(table.to_batches(max_chunksize=batch_rows)), iter(keys.sort_table(table, sort_key).to_batches())]
    if ranks == sorted(ranks):
        assert sum(t.num_rows for t in merge_sorted(inputs, sort_key, batch_rows=batch_rows)) == 2 * table.num_rows
    else:
        with pytest.raises(InvariantError, match="input 0 is not sorted"):
            list(merge_sorted(inputs, sort_key, batch_rows=batch_rows))


def test_columns_with_too_many_strings_become_plain() -> None:
    """A column whose dictionaries have more values together than is worth sharing is merged all the same."""
    rows = 50_000

    def batches(first: int) -> list[pa.RecordBatch]:
        numbers = range(first, 3 * rows, 3)
        table = pa.table({"a": numbers, "s": pa.array([f"s{n}" for n in numbers]).dictionary_encode()})
        return table.combine_chunks().to_batches(max_chunksize=7000)

    out = list(merge_sorted([iter(batches(n)) for n in range(3)], ["a"], batch_rows=7000))
    found = [v for table in out for v in table.column("s").to_pylist()]
    assert found == [f"s{n}" for n in range(3 * rows)]


def test_no_inputs_give_no_rows() -> None:
    """A merge of nothing, or of empty inputs, ends at once."""
    assert list(merge_sorted([], ["a"])) == []
    assert list(merge_sorted([iter([]), iter([pa.record_batch({"a": pa.array([], pa.int64())})])], ["a"])) == []


def test_too_many_inputs_without_a_folder_are_refused() -> None:
    """A merge in several passes needs a folder to put files into."""
    with pytest.raises(InvariantError, match="no folder"):
        list(merge_sorted([iter([])] * 3, ["a"], fan_in=2))
