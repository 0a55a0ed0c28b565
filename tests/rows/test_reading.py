"""Files are read in batches, in order, opened when their turn comes and closed after it."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from drystone.errors import InputError
from drystone.rows.reading import describe, open_sorted


@pytest.fixture
def table() -> pa.Table:
    """A hundred rows, by which to know each of them."""
    return pa.table({"a": pa.array(range(100), pa.int32()), "s": [f"s{n % 7}" for n in range(100)]})


@pytest.fixture
def path(tmp_path: Path, table: pa.Table) -> Path:
    """The rows in a file of three row groups."""
    pq.write_table(table, tmp_path / "it.parquet", row_group_size=40)
    return tmp_path / "it.parquet"


def test_rows_come_in_order_and_in_small_batches(path: Path) -> None:
    """No batch has more rows than asked for, and none spans row groups."""
    batches = list(open_sorted(describe("it", lambda: path), batch_rows=30))
    assert [batch.num_rows for batch in batches] == [30, 10, 30, 10, 20]
    assert [v for batch in batches for v in batch.column("a").to_pylist()] == list(range(100))


def test_only_the_row_groups_that_are_asked_for_are_read(path: Path) -> None:
    """Row groups are skipped."""
    batches = list(open_sorted(describe("it", lambda: path), row_groups=[2]))
    assert [v for batch in batches for v in batch.column("a").to_pylist()] == list(range(80, 100))
    assert list(open_sorted(describe("it", lambda: path), row_groups=[])) == []


def test_files_are_opened_late_and_closed_early(path: Path) -> None:
    """Nothing is open before the first batch, nor after the last one, nor when the reader gives up."""
    opened: list[io.BytesIO] = []

    def open_file() -> io.BytesIO:
        opened.append(io.BytesIO(path.read_bytes()))
        return opened[-1]

    file = describe("it", open_file)
    assert [each.closed for each in opened] == [True]
    reader = open_sorted(file, batch_rows=10)
    assert len(opened) == 1
    next(reader)
    assert [each.closed for each in opened] == [True, False]
    reader.close()
    assert [each.closed for each in opened] == [True, True]
    assert sum(batch.num_rows for batch in open_sorted(file)) == 100
    assert [each.closed for each in opened] == [True, True, True]


def test_rows_come_in_the_schema_that_is_asked_for(path: Path) -> None:
    """Columns are widened, added as nulls, and left out."""
    schema = pa.schema([("new", pa.string()), ("a", pa.int64())])
    first = next(open_sorted(describe("it", lambda: path), schema, batch_rows=2))
    assert first.schema.names == ["new", "a"]
    assert first.to_pydict() == {"new": [None, None], "a": [0, 1]}


def test_what_is_no_parquet_file_is_named(tmp_path: Path) -> None:
    """The error names the file."""
    (tmp_path / "it").write_bytes(b"PAR1, but not for long")
    with pytest.raises(InputError, match="block A, chunk 1 is no Parquet file"):
        describe("block A, chunk 1", lambda: tmp_path / "it")


def test_damage_inside_a_file_is_named(path: Path) -> None:
    """Bytes that changed under an intact footer are an error with the file's name, not other rows."""
    raw = bytearray(path.read_bytes())
    start = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    raw[start : start + 12] = b"\xff" * 12
    file = describe("block A", lambda: io.BytesIO(bytes(raw)))
    with pytest.raises(InputError, match="block A, row group 0"):
        list(open_sorted(file))


def test_nested_columns_are_refused(tmp_path: Path) -> None:
    """Blocks hold plain columns only."""
    pq.write_table(pa.table({"a": [[1]], "b": [{"x": 1, "y": 2}]}), tmp_path / "it")
    with pytest.raises(InputError, match="nested"):
        describe("it", lambda: tmp_path / "it")


def test_estimates_grow_with_what_a_file_holds(tmp_path: Path) -> None:
    """A row's bytes count its columns; an open reader's grow with pages, not with the number of row groups."""
    table = pa.table({"a": pa.array(range(50_000), pa.int64())})
    pq.write_table(table, tmp_path / "small", row_group_size=5_000)
    pq.write_table(pa.concat_tables([table] * 4), tmp_path / "more", row_group_size=5_000)
    pq.write_table(table, tmp_path / "large", row_group_size=50_000)
    small, more, large = (describe(name, lambda name=name: tmp_path / name) for name in ("small", "more", "large"))
    assert small.row_bytes == more.row_bytes >= 8
    assert abs(small.open_bytes - more.open_bytes) < small.open_bytes / 10
    assert large.open_bytes > small.open_bytes
