"""Objects as files: the same bytes as the object, with few requests, readable by Arrow."""

from __future__ import annotations

import io
import secrets
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drystone.bucket import Bucket, LocalBucket, MemoryBucket
from drystone.bucket.files import READ_AHEAD, BucketFile, open_input
from drystone.errors import BucketError, ObjectMissingError

SIZE = 3 * READ_AHEAD + 12_345
DATA = np.random.default_rng(0).bytes(SIZE)
OFFSETS = st.one_of(st.integers(-10, SIZE + 10), st.sampled_from([0, READ_AHEAD - 1, READ_AHEAD, SIZE - 1, SIZE]))
LENGTHS = st.one_of(st.integers(-1, 50), st.integers(0, SIZE + 10), st.sampled_from([READ_AHEAD - 1, READ_AHEAD]))


class CountingBucket(MemoryBucket):
    """A real bucket that notes which ranges are asked for."""

    def __init__(self) -> None:
        """Begin with no requests."""
        super().__init__(secrets.token_hex(8))
        self.ranges: list[tuple[int, int]] = []

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Note the range, and return it."""
        self.ranges.append((start, length))
        return super().get_range(key, start, length)


def table_bytes(rows: int = 50_000, columns: int = 8) -> tuple[pa.Table, bytes]:
    """Return a table of random numbers and its Parquet file in several row groups."""
    random = np.random.default_rng(1)
    table = pa.table({f"c{number}": random.random(rows) for number in range(columns)})
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=rows // 4)
    return table, sink.getvalue()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("seek"), OFFSETS, st.sampled_from([io.SEEK_SET, io.SEEK_CUR, io.SEEK_END])),
            st.tuples(st.just("read"), LENGTHS),
            st.tuples(st.just("readinto"), LENGTHS.filter(lambda length: length >= 0)),
            st.tuples(st.just("readall")),
            st.tuples(st.just("readline")),
        ),
        max_size=20,
    )
)
def test_it_reads_like_a_file(steps: list[tuple[object, ...]]) -> None:
    """Whatever is sought and read, in any order, gives the same as a file of the same bytes."""
    bucket = MemoryBucket("test_it_reads_like_a_file")
    bucket.put("k", DATA)
    file, model = BucketFile(bucket, "k", SIZE), io.BytesIO(DATA)
    for verb, *arguments in steps:
        if verb == "readinto":
            assert isinstance(arguments[0], int)
            ours, theirs = bytearray(arguments[0]), bytearray(arguments[0])
            assert file.readinto(ours) == model.readinto(theirs)
            assert ours == theirs
        elif verb == "readall":
            assert file.readall() == model.read()
        elif verb == "seek" and _target(model, *arguments) < 0:
            with pytest.raises(ValueError, match="cannot seek"):
                getattr(file, verb)(*arguments)
        else:
            assert getattr(file, str(verb))(*arguments) == getattr(model, str(verb))(*arguments)
        assert file.tell() == model.tell()


def _target(file: io.BytesIO, offset: object, whence: object) -> int:
    assert isinstance(offset, int)
    return {io.SEEK_SET: 0, io.SEEK_CUR: file.tell(), io.SEEK_END: SIZE}[whence] + offset  # type: ignore[index]


def test_small_reads_share_a_request_and_large_ones_take_just_their_range() -> None:
    """Opening fetches nothing, small neighbours are read ahead together, a large read fetches its own range alone."""
    bucket = CountingBucket()
    bucket.put("k", DATA)
    file = BucketFile(bucket, "k", SIZE)
    assert bucket.ranges == []
    while file.tell() < READ_AHEAD:
        file.read(READ_AHEAD // 64)
    assert bucket.ranges == [(0, READ_AHEAD)]
    file.seek(10)
    file.read(2 * READ_AHEAD)
    assert bucket.ranges[1:] == [(10, 2 * READ_AHEAD)]
    file.seek(-100, io.SEEK_END)
    file.read(1000)
    assert bucket.ranges[2:] == [(SIZE - 100, 100)]
    assert file.read() == file.read(10) == b""
    assert len(bucket.ranges) == 3


def test_it_can_be_read_and_sought_but_not_written() -> None:
    """It says that it is readable, seekable and not writable, and refuses to be used once closed."""
    bucket = MemoryBucket(secrets.token_hex(8))
    bucket.put("k", b"data")
    with BucketFile(bucket, "k", 4) as file:
        assert (file.readable(), file.seekable(), file.writable()) == (True, True, False)
    for call in (file.read, file.tell, lambda: file.seek(0)):
        with pytest.raises(ValueError, match="closed"):
            call()


def test_arrow_reads_parquet_from_every_bucket(bucket: Bucket) -> None:
    """A Parquet object reads back equal through `open_input`, whole, by row group and by column, also in threads."""
    table, data = table_bytes()
    bucket.put("b/chunks/1.parquet", data)
    for pre_buffer in (False, True):
        with open_input(bucket, "b/chunks/1.parquet", len(data)) as source:
            file = pq.ParquetFile(source, pre_buffer=pre_buffer)
            assert file.read(use_threads=True).equals(table)
            assert file.read_row_group(2, ["c3"]).equals(table.select(["c3"]).slice(25_000, 12_500))
    assert source.closed


def test_a_column_costs_its_own_bytes() -> None:
    """Reading the metadata and one of eight columns fetches a quarter of the object at most."""
    _, data = table_bytes(400_000)
    bucket = CountingBucket()
    bucket.put("k", data)
    pq.ParquetFile(open_input(bucket, "k", len(data))).read(["c1"])
    assert sum(length for _, length in bucket.ranges) < len(data) / 4


def test_a_local_object_is_read_in_place(tmp_path: Path) -> None:
    """`open_input` on a local bucket opens the file itself, which threads can share."""
    bucket = LocalBucket(tmp_path)
    bucket.put("k", b"data")
    assert isinstance(open_input(bucket, "k", 4), pa.OSFile)


def test_an_object_of_another_size_is_an_error(bucket: Bucket) -> None:
    """An object that is shorter than it should be raises BucketError with both sizes, through Arrow as well."""
    _, data = table_bytes(1000)
    bucket.put("k", data)
    with pytest.raises(BucketError, match=f"'k' should have {len(data) + 7:,} bytes, and ends after {len(data):,}"):
        pq.ParquetFile(open_input(bucket, "k", len(data) + 7))


def test_a_missing_object_is_the_same_error_through_arrow(bucket: Bucket) -> None:
    """An object that was deleted raises ObjectMissingError with its key, not an error of Arrow's."""
    with pytest.raises(ObjectMissingError) as caught:
        pq.ParquetFile(open_input(bucket, "gone", 1000))
    assert caught.value.key == "gone"
    bucket.put("gone/below", b"")
    with pytest.raises(ObjectMissingError):
        pq.ParquetFile(open_input(bucket, "gone", 1000))
