"""The peers: what somebody without Drystone would write with plain Spark or DuckDB."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from benchmarks.bench import Bench
from benchmarks.data import SORT_KEY

ROW_GROUP_ROWS = 131_072
PARQUET = f"FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE {ROW_GROUP_ROWS}"
"""As Drystone writes: the same codec at the same level, row groups of the same size."""
KEY = ", ".join(SORT_KEY)


def writer(frame: DataFrame) -> DataFrameWriter:
    """Return Spark's writer, with the codec and the level that Drystone uses."""
    return frame.write.option("compression", "zstd").option("parquet.compression.codec.zstd.level", "1")


def spark_read(spark: SparkSession, paths: Sequence[Path]) -> DataFrame:
    """Return the rows of Parquet files, by plain Spark."""
    return spark.read.parquet(*map(str, paths))


def spark_sort(spark: SparkSession, paths: Sequence[Path], outputs: int, target: Path) -> None:
    """Sort by range: each output file is sorted, and holds its own range of keys."""
    frame = spark_read(spark, paths).repartitionByRange(outputs, *SORT_KEY).sortWithinPartitions(*SORT_KEY)
    writer(frame).parquet(str(target))


def spark_coalesce(spark: SparkSession, paths: Sequence[Path], outputs: int, target: Path) -> None:
    """Put the rows into fewer files, in no order."""
    writer(spark_read(spark, paths).coalesce(outputs)).parquet(str(target))


def duckdb_sort(bench: Bench, paths: Sequence[Path], target: Path) -> None:
    """Sort into one file."""
    with bench.duckdb() as connection:
        query = f"SELECT * FROM read_parquet({listed(paths)}) ORDER BY {KEY}"  # noqa: S608 - our own paths
        connection.execute(f"COPY ({query}) TO '{target / 'sorted.parquet'}' ({PARQUET})")


def copy(paths: Sequence[Path], target: Path, *, sync: bool) -> None:
    """Copy the files' bytes; with `sync`, each is on disk before the next one, as Drystone's uploads are."""
    for number, path in enumerate(paths):
        copied = target / f"{number}.parquet"
        shutil.copyfile(path, copied)
        if sync:
            with copied.open("rb") as file:
                os.fsync(file.fileno())


def listed(paths: Sequence[Path]) -> str:
    """Return a list of files as SQL."""
    return f"[{', '.join(repr(str(path)) for path in paths)}]"
