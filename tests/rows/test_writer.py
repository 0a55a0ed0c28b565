"""A built block holds the rows that were written, in order, and its index and digests say the truth of its files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drystone import ulids
from drystone.errors import InputError, InvariantError, UnreadableBlockError
from drystone.rows import columns, keys
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.checksum import ContentChecksum
from drystone.rows.index import read_index, write_index
from drystone.rows.reading import describe, open_sorted
from drystone.rows.writer import Built, ChunkWriter
from drystone.testing.tables import SCHEMA, SOURCES, arranged, tables

SORTABLE = tuple(name for name in SCHEMA.names if name != SOURCE_COLUMN)


def build(folder: Path, table: pa.Table, sort_key: list[str], rows: int = 4, **more: int) -> Built:
    """Write one table to a block of row groups of `rows` rows."""
    writer = ChunkWriter(folder, SCHEMA, sort_key, "time", row_group_rows=rows, **more)
    writer.write(table)
    return writer.close()


def read(built: Built) -> pa.Table:
    """Return all rows of a block, as another reader of Parquet finds them."""
    paths = [built.folder / file.rel_path for file in built.files if file.rel_path.startswith("chunks/")]
    return pa.concat_tables([pq.read_table(path).cast(SCHEMA) for path in paths])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(st.data(), st.lists(st.sampled_from(SORTABLE), min_size=1, max_size=3, unique=True), st.integers(1, 9))
def test_what_was_written_is_there(tmp_path: Path, data: st.DataObject, sort_key: list[str], rows: int) -> None:
    """Rows, order, checksum, sources, times, row groups and index agree with the files, whatever tables came in."""
    whole = keys.sort_table(data.draw(tables()), sort_key)
    built = build(tmp_path, data.draw(arranged(whole)), sort_key, rows)
    found = read(built)
    assert ContentChecksum().update(found).hex == built.checksum == ContentChecksum().update(whole).hex
    assert found.column("time").equals(whole.column("time"))
    assert (built.rows, built.unknown) == (whole.num_rows, whole.column("time").null_count)
    assert built.sources == {ulids.from_bytes(raw) for raw in whole.column(SOURCE_COLUMN).unique().to_pylist()}
    _check_index(built, whole, sort_key, rows)
    for file in built.files:
        raw = (tmp_path / file.rel_path).read_bytes()
        assert (len(raw), hashlib.sha256(raw).hexdigest()) == (file.size, file.sha256)


def _check_index(built: Built, whole: pa.Table, sort_key: list[str], rows: int) -> None:
    entries = read_index(built.folder / "index")
    assert entries == list(built.entries) or _has_nan(whole)
    assert [entry.rows for entry in entries] == [min(rows, whole.num_rows - n) for n in range(0, whole.num_rows, rows)]
    for number, entry in enumerate(entries):
        part = whole.slice(number * rows, rows)
        times = part.column("time").cast(pa.int64()).drop_null().to_pylist()
        known = (min(times) // 1000, max(times) // 1000 + 1) if times else (None, None)
        assert (entry.min_time, entry.max_time) == known
        arrays = [columns.whole(part.column(name)) for name in sort_key]
        every = [[keys.value_at(array, row) for row in range(part.num_rows)] for array in arrays]
        for low, high, values in zip(entry.mins, entry.maxs, every, strict=True):
            ranks = [keys.rank((value,)) for value in values]
            assert (keys.rank((low,)), keys.rank((high,))) == (min(ranks), max(ranks))


def _has_nan(table: pa.Table) -> bool:
    return bool(pc.any(pc.is_nan(table.column("ratio"))).as_py())


def flights(rows: int) -> pa.Table:
    """Return as many different rows, sorted by time."""
    return pa.table(
        {
            "time": pa.array(range(rows), pa.int64()).cast(pa.timestamp("us", "UTC")),
            "city": pa.array([f"city {n % 50}" for n in range(rows)]),
            "count": pa.array(range(rows), pa.int32()),
            "ratio": pa.array([n * 0.37 for n in range(rows)]),
            "flag": pa.array([n % 2 == 0 for n in range(rows)]),
            "day": pa.array([0] * rows, pa.int32()).cast(pa.date32()),
            SOURCE_COLUMN: pa.array([ulids.to_bytes(SOURCES[0])] * rows),
        }
    )


def test_row_groups_lie_where_the_index_says(tmp_path: Path) -> None:
    """Offset and length span just the row group's bytes: the groups lie side by side between magic and footer."""
    built = build(tmp_path, flights(10_000), ["time"], rows=4000)
    end = 4
    for entry in built.entries:
        assert entry.offset == end
        end = entry.offset + entry.length
    metadata = pq.read_metadata(tmp_path / "chunks/000001.parquet")
    assert metadata.num_row_groups == 3
    assert end <= built.files[0].size


def test_chunks_roll_over_before_they_grow_too_big(tmp_path: Path) -> None:
    """No chunk exceeds the limit, chunks are numbered from 1, and together they hold all rows in order."""
    table = flights(40_000)
    built = build(tmp_path, table, ["time"], rows=1000, max_chunk_bytes=1_150_000)
    chunks = [file for file in built.files if file.rel_path.startswith("chunks/")]
    assert [file.rel_path for file in chunks] == [f"chunks/{n:06}.parquet" for n in range(1, len(chunks) + 1)]
    assert len(chunks) > 1
    assert all(file.size <= 1_150_000 for file in chunks)
    assert read(built).column("count").to_pylist() == list(range(40_000))
    assert {entry.file for entry in built.entries} == {file.rel_path for file in chunks}


def test_a_row_group_that_fits_no_chunk_is_refused(tmp_path: Path) -> None:
    """A row group bigger than a chunk may be is an error that says which setting to lower."""
    with pytest.raises(InputError, match="Lower row_group_rows"):
        build(tmp_path, flights(5000), ["time"], rows=5000, max_chunk_bytes=1000)


def test_a_block_without_rows_is_whole(tmp_path: Path) -> None:
    """It has one chunk with the schema, an empty index, no times and the checksum of nothing."""
    built = ChunkWriter(tmp_path, SCHEMA, ["time"], "time").close()
    assert [file.rel_path for file in built.files] == ["chunks/000001.parquet", "index"]
    assert (built.rows, built.row_groups, built.min_time, built.max_time) == (0, 0, None, None)
    assert built.checksum == ContentChecksum().hex
    assert read_index((tmp_path / "index").read_bytes()) == []
    assert pq.read_schema(tmp_path / "chunks/000001.parquet").names == SCHEMA.names


@pytest.mark.parametrize("cut", [1, 50, 100, 150])
def test_rows_out_of_order_are_refused(tmp_path: Path, cut: int) -> None:
    """Inside a table, between two, inside a row group or between two: disorder is an error."""
    table = flights(200)
    writer = ChunkWriter(tmp_path, SCHEMA, ["time"], "time", row_group_rows=50)
    with pytest.raises(InvariantError, match="order of time"):  # noqa: PT012 - the error comes with a full row group
        writer.write(table.slice(200 - cut))
        writer.write(table.slice(0, 200 - cut))
        writer.close()


def test_a_row_without_a_time_is_none_of_1970(tmp_path: Path) -> None:
    """Such rows are counted, and stretch no time range; a row group of nothing else has none, in the index too."""
    hour = 3_600_000_000
    times = pa.array([5 * hour, 7 * hour, None, None, None]).cast(pa.timestamp("us", "UTC"))
    built = build(tmp_path, flights(5).set_column(0, SCHEMA.field(0), [times]), ["time"], rows=3)
    ranges = [(each.min_time, each.max_time) for each in read_index(tmp_path / "index")]
    assert ranges == [(5 * 3_600_000, 7 * 3_600_000 + 1), (None, None)]
    assert (built.unknown, built.min_time, built.max_time) == (3, *ranges[0])


@pytest.mark.parametrize(
    ("times", "found"),
    [
        ([], (100, 100)),
        ([None], (100, 200)),
        ([120, 130], (120, 131)),
        ([120, None], (100, 200)),
        ([90, None], (90, 200)),
        ([None, 250], (100, 251)),
    ],
)
def test_a_block_that_holds_unknown_times_claims_all_of_its_range(
    tmp_path: Path, times: list[int | None], found: tuple[int, int]
) -> None:
    """Else retention would take such rows away while their chunk is still kept."""
    column = pa.array(times, pa.int64()).cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC"))
    table = keys.sort_table(flights(len(times)).set_column(0, SCHEMA.field(0), [column]), ["time"])
    assert build(tmp_path, table, ["time"]).time_range((100, 200)) == found


def test_a_row_without_source_is_refused(tmp_path: Path) -> None:
    """Every row knows its source."""
    table = flights(3).set_column(6, SCHEMA.field(6), [pa.array([b"x" * 16, None, b"x" * 16])])
    with pytest.raises(InvariantError, match="has no __source"):
        build(tmp_path, table, ["time"])


def test_files_tell_how_they_are_sorted(tmp_path: Path) -> None:
    """Sorting columns, statistics of the sort columns and page indexes are there for other readers."""
    build(tmp_path, flights(100), ["city", "time"][::-1], rows=50)
    group = pq.read_metadata(tmp_path / "chunks/000001.parquet").row_group(0)
    assert [column.column_index for column in group.sorting_columns] == [0, 1]
    assert group.column(0).statistics.has_min_max
    assert group.column(1).statistics.has_min_max
    assert group.column(0).compression == "ZSTD"


def test_source_stays_a_dictionary_when_read_back(tmp_path: Path) -> None:
    """Strings and `__source` come back as dictionary arrays, numbers as they are."""
    build(tmp_path, flights(100), ["time"], rows=50)
    path = tmp_path / "chunks/000001.parquet"
    batches = list(open_sorted(describe("it", lambda: path), batch_rows=30))
    assert [batch.num_rows for batch in batches] == [30, 20, 30, 20]
    for name in ("city", SOURCE_COLUMN):
        assert pa.types.is_dictionary(batches[0].schema.field(name).type)
    assert batches[0].schema.field("time").type == SCHEMA.field("time").type


def test_strings_without_repetition_are_written_and_read(tmp_path: Path) -> None:
    """A column that no dictionary suits goes through all the same."""
    table = flights(5000).set_column(1, SCHEMA.field(1), [pa.array([f"{n:>300}" for n in range(5000)])])
    built = build(tmp_path, table, ["time"], rows=5000)
    assert ContentChecksum().update(read(built)).hex == ContentChecksum().update(table).hex == built.checksum


def test_a_dictionary_larger_than_the_row_group_is_not_written_out(tmp_path: Path) -> None:
    """Rows that use few values of a big dictionary take little room."""
    big = pa.array([hashlib.sha256(str(n).encode()).hexdigest() * 4 for n in range(5000)])
    codes = pa.array([n % 3 for n in range(100)], pa.int32())
    table = flights(100).set_column(1, "city", [pa.DictionaryArray.from_arrays(codes, big)])
    built = build(tmp_path, table, ["time"], rows=50)
    assert built.files[0].size < 20_000
    assert read(built).column("city").to_pylist() == [big[n % 3].as_py() for n in range(100)]


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    """Bytes that are no Parquet, and Parquet that is no index, are unreadable, not empty."""
    with pytest.raises(UnreadableBlockError):
        read_index(b"PAR1 not really")
    pq.write_table(pa.table({"file": ["x"]}), tmp_path / "other")
    with pytest.raises(UnreadableBlockError, match="known is"):
        read_index(tmp_path / "other")


def test_an_index_holds_typed_bounds(tmp_path: Path) -> None:
    """Bounds have the types of their columns, so that any reader of Parquet can use them."""
    write_index(tmp_path / "index", [], SCHEMA, ["time", "day"])
    schema = pq.read_schema(tmp_path / "index")
    assert schema.names[:3] == ["file", "ordinal", "offset"]
    assert schema.field("min_time").type == pa.timestamp("us", "UTC")
    assert schema.field("max_day").type == pa.date32()


def test_a_row_group_ends_where_its_rows_are_large(tmp_path: Path) -> None:
    """Not only rows count: a few of a megabyte among many small ones neither take all memory nor a group each."""
    sizes = [10] * 1000 + [1 << 20] * 5 + [10] * 1000
    rows = pa.table({"time": pa.array(range(len(sizes)), pa.timestamp("us", "UTC")), "text": ["x" * n for n in sizes]})
    writer = ChunkWriter(tmp_path, rows.schema, ["time"], "time", row_group_bytes=2 << 20)
    for start in range(0, rows.num_rows, 700):
        writer.write(rows.slice(start, 700))
    built = writer.close()
    ends = np.cumsum([entry.rows for entry in built.entries])
    held = [sum(sizes[end - entry.rows : end]) for entry, end in zip(built.entries, ends, strict=True)]
    assert max(held) <= 2 << 20
    assert len(held) <= 5
