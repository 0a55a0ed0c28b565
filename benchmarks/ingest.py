"""CSV files into sorted Parquet by day: the upload job, against plain Spark and DuckDB."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from benchmarks import data, peers
from benchmarks.bench import Bench
from benchmarks.lake import STREAM, Lake, make_lake, parquet_rows
from benchmarks.race import Contender, race, versus_first
from benchmarks.table import Table
from drystone.spark.types import ddl

ROWS = 2_000_000


def measure(bench: Bench) -> list[Table]:
    """Return one table."""
    lake = make_lake(bench.folder / "ingest", "day", "month")
    paths = data.input_files(lake.folder / "data", bench.rows(ROWS))
    contenders = _contenders(bench, lake, paths)
    race(contenders, 1, bench.folder / "race")
    results = race(contenders, bench.repeat, bench.folder / "race")
    size = sum(path.stat().st_size for path in paths) / 1e6
    title = f"Ingest: {len(paths)} CSV files, {bench.rows(ROWS):,} rows, {size:.0f} MB, into sorted Parquet by day"
    table = versus_first(title, results)
    table.notes += [
        "Drystone uploads a block per file and day: Parquet, index and meta.json, each synced and create-only.",
        "Plain Spark is shown with as many files as Drystone has blocks (by origin and day), and with a third.",
        "One round before the measured ones warms all of them up.",
    ]
    return [table]


def _contenders(bench: Bench, lake: Lake, paths: list[Path]) -> list[Contender]:
    def prepare(folder: Path) -> None:
        lake.linked(folder / "lake")

    def upload(folder: Path) -> None:
        Lake(folder / "lake").job(bench.spark, "upload", "bench")

    def uploaded(folder: Path, _: object) -> int:
        return parquet_rows(Lake(folder / "lake").chunks)

    def written(folder: Path, _: object) -> int:
        return parquet_rows(folder.rglob("*.parquet"))

    return [
        Contender("Drystone, upload", upload, uploaded, prepare),
        Contender(
            "plain Spark, by origin and day",
            lambda folder: _spark(bench, lake, paths, ["origin", "__day"], folder / "out"),
            written,
        ),
        Contender("plain Spark, by day", lambda folder: _spark(bench, lake, paths, ["__day"], folder / "out"), written),
        Contender("DuckDB, by day", lambda folder: _duckdb(bench, paths, folder / "out"), written),
    ]


def _spark(bench: Bench, lake: Lake, paths: list[Path], by: list[str], target: Path) -> None:
    columns = lake.loaded.stream(STREAM).columns
    assert isinstance(columns, dict)  # noqa: S101 - the configuration is ours
    own = {name: kind for name, kind in columns.items() if name != "event_time"}
    reader = bench.spark.read.schema(ddl(own)).option("header", "true").option("nullValue", "NA")
    frame = reader.option("mode", "FAILFAST").csv([str(path) for path in paths])
    frame = frame.withColumn("event_time", F.expr("time_hour + make_dt_interval(0, 0, minute, 0)"))
    frame = frame.withColumn("__day", F.to_date("event_time"))
    frame = frame.repartition(bench.cores, *by).sortWithinPartitions(*by, *data.SORT_KEY)
    peers.writer(frame).partitionBy(*by).parquet(str(target))


def _duckdb(bench: Bench, paths: list[Path], target: Path) -> None:
    own = f"SELECT *, time_hour + to_minutes(minute) AS event_time FROM read_csv({peers.listed(paths)}, nullstr='NA')"  # noqa: S608 - our own paths
    query = f"SELECT *, event_time::DATE AS __day FROM ({own}) ORDER BY __day, {peers.KEY}"  # noqa: S608 - as above
    with bench.duckdb() as connection:
        connection.execute(f"COPY ({query}) TO '{target}' ({peers.PARQUET}, PARTITION_BY (__day))")
