"""Major compaction of days into months, sorted, against plain Spark's range-partitioned sort."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from benchmarks import data, peers
from benchmarks.bench import Bench
from benchmarks.lake import Lake, fill, make_lake, parquet_rows
from benchmarks.race import Contender, race, versus_first
from benchmarks.table import Table

ROWS = 6_000_000
DAYS = 365
MONTHS = 12


def measure(bench: Bench) -> list[Table]:
    """Return one table."""
    lake = lake_of_days(bench, bench.rows(ROWS), DAYS if bench.scale >= 0.05 else 40)
    contenders = _contenders(bench, lake)
    race(contenders, 1, bench.folder / "race")
    results = race(contenders, bench.repeat, bench.folder / "race")
    rows, size = parquet_rows(lake.chunks), lake.bytes / 1e6
    title = f"Major compaction: {len(lake.chunks)} days into months, sorted, {rows:,} rows, {size:.0f} MB"
    table = versus_first(title, results)
    table.notes.append("One round before the measured ones warms all of them up.")
    return [table]


def lake_of_days(bench: Bench, rows: int, days: int) -> Lake:
    """Return a lake with one block per day, all of the same number of rows."""
    lake = make_lake(bench.folder / "days", "day", "month")
    fill(lake, data.of_day, [(day, rows // days) for day in range(days)], bench.cores)
    return lake


def _contenders(bench: Bench, lake: Lake) -> list[Contender]:
    paths, before = lake.chunks, {path.parts[-3] for path in lake.chunks}

    def prepare(folder: Path) -> None:
        lake.linked(folder / "lake")

    def uploaded(folder: Path, _: object) -> int:
        return parquet_rows(path for path in Lake(folder / "lake").chunks if path.parts[-3] not in before)

    def sort(folder: Path) -> None:
        frame = peers.spark_read(bench.spark, paths).withColumn("__month", F.month("event_time"))
        order = ("__month", *data.SORT_KEY)
        frame = frame.repartitionByRange(MONTHS, *order).sortWithinPartitions(*order)
        peers.writer(frame).partitionBy("__month").parquet(str(folder / "out"))

    def written(folder: Path, _: object) -> int:
        return parquet_rows(folder.rglob("*.parquet"))

    return [
        Contender("Drystone", lambda folder: Lake(folder / "lake").compact(bench.spark, "major"), uploaded, prepare),
        Contender("plain Spark, repartitionByRange and sortWithinPartitions", sort, written, goal=1),
    ]
