"""A row group's columns come with few requests, by the thread that asks, and nothing of it outlives the program."""

from __future__ import annotations

import io
import secrets
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from s3_buckets import new_bucket

from drystone.bucket import MemoryBucket
from drystone.bucket.files import open_input
from drystone.rows.fetched import HOLE, Fetched, column_ranges, iter_batches, open_parquet
from drystone.rows.reading import describe, open_sorted
from drystone.testing.s3_server import S3Server

ROWS = 40_000


def table() -> pa.Table:
    """Columns of random numbers, of which each takes more than a hole, and one of words."""
    random = np.random.default_rng(1)
    columns = {f"c{number}": random.random(ROWS * 4) for number in range(4)}
    return pa.table(columns | {"word": [f"w{number % 9}" for number in range(ROWS * 4)]})


class Watched(MemoryBucket):
    """A bucket that notes which ranges are asked for, and by which threads."""

    def __init__(self) -> None:
        """Begin with no requests."""
        super().__init__(secrets.token_hex(8))
        self.ranges: list[tuple[int, int]] = []
        self.threads: set[int] = set()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Note the range, and return it."""
        self.ranges.append((start, length))
        self.threads.add(threading.get_ident())
        return super().get_range(key, start, length)


@pytest.fixture
def stored() -> tuple[Watched, pa.Table, int]:
    """A bucket with the table in four row groups, and the size of its file."""
    sink, rows = io.BytesIO(), table()
    pq.write_table(rows, sink, row_group_size=ROWS, use_dictionary=["word"], compression="none")
    bucket = Watched()
    bucket.put("k", sink.getvalue())
    return bucket, rows, len(sink.getvalue())


def test_a_row_group_is_one_request_by_our_own_thread(stored: tuple[Watched, pa.Table, int]) -> None:
    """All columns of a row group come with one request, made by the thread that reads."""
    bucket, rows, size = stored
    file = describe("it", lambda: open_input(bucket, "k", size))
    bucket.ranges.clear()
    assert pa.Table.from_batches(open_sorted(file)).select(rows.column_names).cast(rows.schema).equals(rows)
    assert len(bucket.ranges) == 4
    assert bucket.threads == {threading.get_ident()}


def test_columns_that_lie_apart_are_fetched_apart(stored: tuple[Watched, pa.Table, int]) -> None:
    """Of columns with a wide gap between them only their own bytes come."""
    bucket, rows, size = stored
    file = describe("it", lambda: open_input(bucket, "k", size))
    schema = pa.schema([rows.schema.field("c0"), rows.schema.field("c3")])
    bucket.ranges.clear()
    batches = list(open_sorted(file, schema, row_groups=[1]))
    assert pa.Table.from_batches(batches).equals(rows.select(["c0", "c3"]).slice(ROWS, ROWS))
    assert len(bucket.ranges) == 2
    assert sum(length for _, length in bucket.ranges) < size / 4 * 0.6


def test_what_readers_use_takes_one_request_for_a_row_group_too(stored: tuple[Watched, pa.Table, int]) -> None:
    """`iter_batches` reads the footer, and then each row group that is asked for with one request, by our thread."""
    bucket, rows, size = stored
    with open_input(bucket, "k", size) as source:
        parquet, fetched = open_parquet(source)
        assert fetched is not None
        bucket.ranges.clear()
        found = pa.Table.from_batches(iter_batches(parquet, fetched, ["c0", "c1"], [1, 3]))
    assert found.equals(pa.concat_tables([rows.slice(at * ROWS, ROWS) for at in (1, 3)]).select(["c0", "c1"]))
    assert len(bucket.ranges) == 2
    assert bucket.threads == {threading.get_ident()}


def test_close_columns_are_one_range() -> None:
    """Columns with at most a small hole between them are one range, dictionaries included."""
    sink = io.BytesIO()
    pq.write_table(table(), sink, row_group_size=ROWS, use_dictionary=["word"], compression="none")
    group = pq.read_metadata(sink).row_group(0)
    every = column_ranges(group, [f"c{number}" for number in range(4)] + ["word"])
    assert len(every) == 1
    assert every[0][1] - every[0][0] == sum(group.column(at).total_compressed_size for at in range(5))
    apart = column_ranges(group, ["c0", "c2"])
    assert group.column(1).total_compressed_size > HOLE
    assert len(apart) == 2


def test_it_reads_like_its_file(stored: tuple[Watched, pa.Table, int]) -> None:
    """Held or not, inside a range, across its end or at the file's, the bytes are the file's."""
    bucket, _, size = stored
    data = bucket.get("k")
    with open_input(bucket, "k", size) as source, Fetched(source) as file:
        file.fetch([(1000, 2000), (5000, 6000)])
        for start, length in [(1000, 10), (1990, 20), (0, 5), (5000, 1000), (size - 3, 10), (500, 700)]:
            assert file.seek(start) == start
            assert bytes(file.read(length)) == data[start : start + length]
            file.seek(start)
            buffer = bytearray(length)
            count = file.readinto(buffer)
            assert bytes(buffer[:count]) == data[start : start + length]


ENDS = """
import sys
from drystone.bucket import open_bucket
from drystone.bucket.files import open_input
from drystone.rows.reading import describe, open_sorted
bucket = open_bucket(sys.argv[1])
size = bucket.head("k").size
file = describe("it", lambda: open_input(bucket, "k", size))
batches = open_sorted(file)
print(next(batches).num_rows)
if sys.argv[2] == "exit":
    sys.exit(3)
raise SystemError("the end")
"""


@pytest.mark.parametrize(("how", "code"), [("exit", 3), ("raise", 1)])
def test_a_program_may_end_amid_a_read(
    s3_account: S3Server, tmp_path: Path, how: str, code: int, stored: tuple[Watched, pa.Table, int]
) -> None:
    """A program that ends right after its first batch from S3 ends as it wants to, and is not aborted."""
    bucket = new_bucket(s3_account)
    bucket.put("k", stored[0].get("k"))
    done = subprocess.run(
        [sys.executable, "-c", ENDS, bucket.url, how], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert done.returncode == code, done.stderr
    assert done.stdout == "8192\n"
    assert "Fatal Python error" not in done.stderr
