"""Hadoop itself, from Spark's jars, reads and writes what our SequenceFiles are."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import msgspec
import pytest
from messages import SYNC, Message, write
from pyspark.sql import SparkSession
from sequence_files import HEADER

from drystone.config.export import Format

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def messages() -> list[Message]:
    """Messages of a few kinds, half a megabyte: some sync markers lie between them, and one within a message."""
    dice = random.Random(5)
    sizes = [0, 1, 127, 128, 3_000, 20_000]
    found = [
        Message(
            offset,
            offset % 4_000_000_000_000 if offset % 5 else None,
            dice.randbytes(8),
            dice.randbytes(dice.choice(sizes)),
        )
        for offset in sorted(dice.sample(range(1 << 50), 120))
    ]
    return [*found, Message(1 << 51, None, None, None), Message((1 << 51) + 1, None, b"", b"\xff\xff\xff\xff" + SYNC)]


def byte_array(spark: SparkSession, raw: bytes) -> Any:
    """Return bytes as Java takes them."""
    return spark.sparkContext._jvm.org.apache.hadoop.io.BytesWritable(raw)  # type: ignore[union-attr]


@pytest.mark.parametrize("kind", ["sequence_file", "sequence_file_msgpack"])
def test_hadoops_reader_reads_what_was_written(
    tmp_path: Path, spark: SparkSession, messages: list[Message], kind: Format
) -> None:
    """`SequenceFile.Reader`, record by record: classes, keys, values, and no more."""
    path = tmp_path / "ours.seq"
    write(path, messages, kind, cuts=[3, 50])
    jvm: Any = spark.sparkContext._jvm
    hadoop = jvm.org.apache.hadoop
    reader_class = hadoop.io.SequenceFile.Reader
    options = spark.sparkContext._gateway.new_array(  # type: ignore[union-attr]
        getattr(jvm, "org.apache.hadoop.io.SequenceFile$Reader$Option"), 1
    )
    options[0] = reader_class.file(hadoop.fs.Path(path.as_uri()))
    reader = reader_class(hadoop.conf.Configuration(), options)
    assert reader.getKeyClassName() == reader.getValueClassName() == "org.apache.hadoop.io.BytesWritable"
    assert not reader.isCompressed()
    key, value = hadoop.io.BytesWritable(), hadoop.io.BytesWritable()
    found = []
    while reader.next(key, value):
        found.append((bytes(key.copyBytes()), bytes(value.copyBytes())))
    reader.close()
    assert [value for _, value in found] == [each.value or b"" for each in messages]
    if kind == "sequence_file":
        assert [int.from_bytes(key, "big") for key, _ in found] == [each.offset for each in messages]
    else:
        wanted = [{1: each.offset, 2: each.key, 3: each.time} for each in messages]
        assert [msgspec.msgpack.decode(key) for key, _ in found] == [
            {name: value for name, value in keys.items() if value is not None} for keys in wanted
        ]


def test_many_tasks_share_a_file_by_its_sync_markers(
    tmp_path: Path, spark: SparkSession, messages: list[Message]
) -> None:
    """`SequenceFileInputFormat`: each task begins at a sync marker, and every record is read once."""
    path = tmp_path / "ours.seq"
    write(path, messages, "sequence_file")
    records = spark.sparkContext.sequenceFile(path.as_uri(), minSplits=4)
    assert records.getNumPartitions() >= 4
    found = sorted((bytes(key), bytes(value)) for key, value in records.collect())
    assert found == [(each.offset.to_bytes(8, "big"), each.value or b"") for each in messages]


def test_the_bytes_are_those_of_hadoops_own_writer(
    tmp_path: Path, spark: SparkSession, messages: list[Message]
) -> None:
    """But for the marker, which it draws: with its marker, our file is its file, byte by byte."""
    path = tmp_path / "theirs.seq"
    hadoop: Any = spark.sparkContext._jvm.org.apache.hadoop  # type: ignore[union-attr]
    conf = hadoop.conf.Configuration()
    kind = hadoop.io.BytesWritable()
    writer = hadoop.io.SequenceFile.createWriter(
        hadoop.fs.FileSystem.getLocal(conf),
        conf,
        hadoop.fs.Path(path.as_uri()),
        kind.getClass(),
        kind.getClass(),
        hadoop.io.SequenceFile.CompressionType.NONE,
    )
    for each in messages:
        writer.append(byte_array(spark, each.offset.to_bytes(8, "big")), byte_array(spark, each.value or b""))
    writer.close()
    theirs = path.read_bytes()
    ours = write(tmp_path / "ours.seq", messages, "sequence_file")
    sync = theirs[len(HEADER) :][:16]
    assert _with_marker(ours, sync, messages) == theirs


def _with_marker(ours: bytes, sync: bytes, messages: list[Message]) -> bytes:
    """Return our file with their marker, but for the message that holds ours as its content."""
    last = messages[-1].value or b""
    begin, end = ours[: -len(last)], ours[-len(last) :]
    assert end == last
    return begin.replace(SYNC, sync) + end
