"""`drystone files`, and other tools that read with it, or read a block without Drystone."""

from __future__ import annotations

from collections.abc import Iterable

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from lakes import DAY, FIRST_DAY, SCHEMA, STREAM, Lake, Row, rows, values

from drystone.testing.streams import with_source

Busy = tuple[Lake, list[Row]]


def read_with_duckdb(files: Iterable[dict[str, str]]) -> pa.Table:
    """Return the rows of listed files, each with its own filter."""
    parts = [
        f"SELECT * EXCLUDE (__source) FROM read_parquet('{file['uri']}') WHERE {file['filter'] or 'true'}"
        for file in files
    ]
    with duckdb.connect() as connection:
        # Filters carry their own offset: the session's time zone must make no difference.
        connection.execute("SET TimeZone = 'Asia/Tokyo'")
        return connection.sql(" UNION ALL BY NAME ".join(parts)).to_arrow_table()


def test_duckdb_reads_a_stream(busy: Busy) -> None:
    """DuckDB reads a stream exactly in the middle of its life: overlaps, covered and fresh blocks, a pending edit."""
    lake, truth = busy
    found = lake.drystone("files", STREAM, "--json").json
    assert any("NOT IN" in file["filter"] for file in found["files"])
    assert values(read_with_duckdb(found["files"])) == truth


def test_duckdb_reads_a_time_range(busy: Busy) -> None:
    """With a start and an end only files that can hold such rows are listed, and their filters cut the range."""
    lake, truth = busy
    everything = lake.drystone("files", STREAM, "--json").json["files"]
    start, end = FIRST_DAY + 2 * 3_600_000, FIRST_DAY + DAY
    found = lake.drystone("files", STREAM, "--start", start, "--end", end, "--json").json["files"]
    assert {file["block"] for file in found} == {file["block"] for file in everything} - {lake.ulid("e")}
    inside = [row for row in truth if start * 1000 <= row[0] < end * 1000]
    assert values(read_with_duckdb(found)) == inside


def test_duckdb_reads_different_schemas(lake: Lake) -> None:
    """A column that older blocks lack is null for their rows."""
    lake.ingest("old", rows(1))
    newer = rows(2).append_column("wind", pa.array(range(30), pa.int32()))
    lake.upload("new", with_source(newer, lake.source("new")))
    table = read_with_duckdb(lake.drystone("files", STREAM, "--json").json["files"])
    assert values(table) == sorted(values(rows(1)) + values(rows(2)), key=lambda row: row[2])
    assert table["wind"].null_count == 30


def test_a_table_for_people(busy: Busy) -> None:
    """For people each file is one line: its address, its size, and the filter if it needs one."""
    lake, _ = busy
    lines = lake.drystone("files", STREAM).out.splitlines()
    assert len(lines) == 5
    assert any(lake.ulid("x") in line and "NOT IN" in line for line in lines)


def test_duckdb_pandas_and_arrow_read_a_block(busy: Busy) -> None:
    """The chunks of a block are plain Parquet: DuckDB, pandas and pyarrow read the same rows without Drystone."""
    lake, _ = busy
    folder = lake.file("x", "chunks")
    wanted = values(lake.given["x"])
    with duckdb.connect() as connection:
        by_duckdb = connection.sql(f"SELECT * FROM '{folder}/*.parquet'").to_arrow_table()
    by_pandas = pd.read_parquet(folder)
    by_arrow = pq.read_table(folder)
    by_dataset = ds.dataset(folder).to_table()
    assert values(by_duckdb) == values(by_arrow) == values(by_dataset) == wanted
    assert values(pa.Table.from_pandas(by_pandas, preserve_index=False).select(SCHEMA.names).cast(SCHEMA)) == wanted
    assert by_arrow.column_names == [*SCHEMA.names, "__source"]


def test_every_tool_prunes_by_statistics(busy: Busy) -> None:
    """Each row group has statistics of the sort columns and of the time, so that other tools can skip it."""
    lake, _ = busy
    metadata = pq.read_metadata(lake.file("x", "chunks/000001.parquet"))
    for group in range(metadata.num_row_groups):
        for column in (0, 1):
            assert metadata.row_group(group).column(column).statistics.has_min_max
