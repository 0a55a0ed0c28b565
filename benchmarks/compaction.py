"""Minor compaction of 200 sorted files, interleaving and not, against sorting, coalescing and copying them."""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from pathlib import Path

from benchmarks import data, peers
from benchmarks.bench import Bench
from benchmarks.lake import Lake, fill, make_lake, outputs_of, parquet_rows
from benchmarks.race import Contender, Result, race, versus_first
from benchmarks.table import Table

ROWS = 12_000_000
FILES = 200
_WARM = 20_000


def measure(bench: Bench) -> list[Table]:
    """Return a table for interleaving files, and one for files that do not interleave."""
    rows = bench.rows(ROWS)
    files = min(FILES, rows // 100)
    warm_up = _lake(bench, "warm", 10, _WARM // 10, interleaving=True)
    race(_interleaving(bench, warm_up), 1, bench.folder / "race")
    together = _lake(bench, "together", files, rows // files, interleaving=True)
    first = versus_first(_title(together, files, "interleave"), _race(bench, _interleaving(bench, together)))
    apart = _lake(bench, "apart", files, rows // files, interleaving=False)
    second = versus_first(_title(apart, files, "do not interleave"), _race(bench, _not_interleaving(bench, apart)))
    first.notes += [
        "Drystone: the jobs detect and compact in a Spark that runs already, with all checks of rows, order, sources.",
        "Plain Spark coalesce leaves the rows unsorted. DuckDB sorts into one file.",
        "Everybody reads the same files, the blocks' chunks with their column of sources, and writes zstd at level 1.",
    ]
    second.notes.append("The goal here is a limit: Drystone may take four times as long as the copy.")
    return [first, second]


def _race(bench: Bench, contenders: list[Contender]) -> list[Result]:
    return race(contenders, bench.repeat, bench.folder / "race")


def _lake(bench: Bench, name: str, files: int, rows: int, *, interleaving: bool) -> Lake:
    lake = make_lake(bench.folder / name, "year", "year")
    if interleaving:
        fill(lake, data.shuffled, [(file, rows) for file in range(files)], bench.cores)
    else:
        fill(lake, data.disjoint, [(file, files, rows) for file in range(files)], bench.cores)
    return lake


def _title(lake: Lake, files: int, how: str) -> str:
    chunks = lake.chunks
    rows, size = parquet_rows(chunks), lake.bytes / 1e6
    return f"Minor compaction: {files} sorted files that {how}, {rows:,} rows, {size:.0f} MB"


def _interleaving(bench: Bench, lake: Lake) -> list[Contender]:
    paths, outputs, spark = lake.chunks, bench.cores, bench.spark
    return [
        drystone(bench, lake, outputs),
        drystone(bench, lake, 1),
        Contender(
            f"plain Spark, sort, {outputs} files",
            lambda folder: peers.spark_sort(spark, paths, outputs, folder / "out"),
            _rows_written,
            goal=5,
        ),
        Contender(
            f"plain Spark, coalesce, {outputs} files",
            lambda folder: peers.spark_coalesce(spark, paths, outputs, folder / "out"),
            _rows_written,
            goal=1.3,
        ),
        Contender(
            "DuckDB, COPY … ORDER BY",
            lambda folder: peers.duckdb_sort(bench, paths, folder),
            _rows_written,
            goal=2,
        ),
    ]


def _not_interleaving(bench: Bench, lake: Lake) -> list[Contender]:
    paths = lake.chunks
    return [
        drystone(bench, lake, bench.cores),
        Contender(
            "copying the bytes",
            lambda folder: peers.copy(paths, folder, sync=False),
            _rows_written,
            goal=0.25,
        ),
        Contender(
            "copying the bytes, each file synced",
            lambda folder: peers.copy(paths, folder, sync=True),
            _rows_written,
        ),
        Contender("DuckDB, COPY … ORDER BY", lambda folder: peers.duckdb_sort(bench, paths, folder), _rows_written),
    ]


def drystone(bench: Bench, lake: Lake, outputs: int, kind: str = "minor") -> Contender:
    """Return the real jobs as a contender: each time on a fresh copy of the lake, which costs no time."""
    target = outputs_of(lake, outputs)

    def prepare(folder: Path) -> None:
        lake.linked(folder / "lake").configure(target_block_bytes=f"{target}B")

    return Contender(
        f"Drystone, {outputs} block{'s' if outputs > 1 else ''}",
        lambda folder: Lake(folder / "lake").compact(bench.spark, kind),
        partial(_rows_uploaded, {path.parts[-3] for path in lake.chunks}),
        prepare=prepare,
    )


def _rows_uploaded(before: set[str], folder: Path, _: object) -> Hashable:
    return parquet_rows(path for path in Lake(folder / "lake").chunks if path.parts[-3] not in before)


def _rows_written(folder: Path, _: object) -> Hashable:
    return parquet_rows(folder.rglob("*.parquet"))
