"""Reading a stream through Drystone, against reading the very same files without it, by the same engine."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pads
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

import drystone
from benchmarks import peers
from benchmarks.bench import Bench
from benchmarks.lake import STREAM, SYNC_DELAY, Lake, parquet_rows
from benchmarks.major import DAYS, ROWS, lake_of_days
from benchmarks.race import Contender, in_pairs, race
from benchmarks.table import Table

START, END = datetime(2013, 1, 14, tzinfo=UTC), datetime(2013, 1, 21, tzinfo=UTC)
_SOURCE = "__source"


@dataclass(frozen=True, slots=True)
class Query:
    """What is read: a time range or everything, some columns or all."""

    name: str
    columns: tuple[str, ...] | None = None
    start: datetime | None = None
    end: datetime | None = None


QUERIES = (
    Query("all rows, all columns"),
    Query("one week, all columns", None, START, END),
    Query("all rows, two columns", ("carrier", "arr_delay")),
)


def measure(bench: Bench) -> list[Table]:
    """Return a table for many small blocks, and one for the same rows in few big ones."""
    small = lake_of_days(bench, bench.rows(ROWS), DAYS if bench.scale >= 0.05 else 40)
    big = small.linked(bench.folder / "months")
    _compact(bench, big)
    return [_table(bench, small, "a block per day"), _table(bench, big, "compacted to a block per month")]


def _compact(bench: Bench, lake: Lake) -> None:
    """Leave nothing but the outputs of a major compaction, ready to be read."""
    before = {path.parts[-3] for path in lake.chunks}
    lake.compact(bench.spark, "major")
    time.sleep(SYNC_DELAY)
    for name in before:
        shutil.rmtree(lake.folder / "bucket" / STREAM / name)


def _table(bench: Bench, lake: Lake, state: str) -> Table:
    paths = lake.visible
    size = sum(path.stat().st_size for path in paths) / 1e6
    title = f"Reading {parquet_rows(paths):,} rows, {state}: {len(paths)} files, {size:.0f} MB"
    header = ("", "plain: median s", "min to max", "Drystone: median s", "min to max", "Drystone / plain")
    table = Table(title, header)
    contenders = [each for query in QUERIES for each in _contenders(bench, lake, paths, query)]
    race(contenders, 1, bench.folder / "race")
    table.rows += in_pairs(race(contenders, bench.repeat, bench.folder / "race"))
    table.notes += [
        "Plain: the same engine on a list of the same files, which somebody must have made.",
        "Drystone: observing the stream, resolving what is visible, and reading it.",
        "Spark and DuckDB count and hash every column that was asked for; Arrow counts, and takes minima and maxima.",
        "One round before the measured ones warms all of them up.",
    ]
    return table


def _contenders(bench: Bench, lake: Lake, paths: list[Path], query: Query) -> list[Contender]:
    pairs: list[tuple[str, Callable[[], object], Callable[[], object]]] = [
        (
            "Spark",
            lambda: _spark_answer(_between(peers.spark_read(bench.spark, paths).drop(_SOURCE), query), query),
            lambda: _spark_answer(_through_spark(bench, lake, query), query),
        ),
        ("Arrow", lambda: _plain_arrow(paths, query), lambda: _through_arrow(lake, query)),
        (
            "DuckDB",
            lambda: _duckdb(bench, [(path, _condition(query)) for path in paths], query),
            lambda: _duckdb(bench, _files(lake, query), query),
        ),
    ]
    found: list[Contender] = []
    for engine, plain, ours in pairs:
        name = f"{query.name}: {engine}"
        found += [Contender(name, partial(_called, work), _same, kind=name) for work in (plain, ours)]
    return found


def _called(work: Callable[[], object], _: Path) -> object:
    return work()


def _same(_: Path, answer: object) -> Hashable:
    assert isinstance(answer, Hashable)  # noqa: S101 - for the type checker
    return answer


def _spark_answer(frame: DataFrame, query: Query) -> tuple[object, ...]:
    if query.columns is not None:
        frame = frame.select(*query.columns)
    return tuple(frame.agg(F.count("*"), F.bit_xor(F.xxhash64(*frame.columns))).first() or ())


def _between(frame: DataFrame, query: Query) -> DataFrame:
    return frame if query.start is None else frame.where(
        (F.col("event_time") >= F.lit(query.start)) & (F.col("event_time") < F.lit(query.end))
    )  # fmt: skip


def _through_spark(bench: Bench, lake: Lake, query: Query) -> DataFrame:
    return drystone.read(bench.spark, lake.url, STREAM, query.start, query.end, query.columns)


def _plain_arrow(paths: list[Path], query: Query) -> tuple[object, ...]:
    dataset = pads.dataset([str(path) for path in paths], format="parquet")
    columns = query.columns or tuple(name for name in dataset.schema.names if name != _SOURCE)
    time_column, kind = pc.field("event_time"), dataset.schema.field("event_time").type
    keep = None
    if query.start is not None:
        keep = (time_column >= pa.scalar(query.start, kind)) & (time_column < pa.scalar(query.end, kind))
    return _arrow_answer(dataset.to_batches(columns=list(columns), filter=keep))


def _through_arrow(lake: Lake, query: Query) -> tuple[object, ...]:
    return _arrow_answer(drystone.scan(lake.url, STREAM, query.start, query.end, query.columns))


def _arrow_answer(batches: Iterable[pa.RecordBatch]) -> tuple[object, ...]:
    rows = 0
    extremes: dict[str, list[object]] = {}
    for batch in batches:
        rows += batch.num_rows
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            found = pc.min_max(column).as_py()
            extremes.setdefault(name, []).extend(value for value in found.values() if value is not None)
    return rows, *((name, min(seen), max(seen)) for name, seen in sorted(extremes.items()) if seen)  # type: ignore[type-var]


def _condition(query: Query) -> str:
    if query.start is None or query.end is None:
        return ""
    return f"event_time >= '{query.start.isoformat()}' AND event_time < '{query.end.isoformat()}'"


def _files(lake: Lake, query: Query) -> list[tuple[Path, str]]:
    low, high = (None if each is None else round(each.timestamp() * 1000) for each in (query.start, query.end))
    found = drystone.files(lake.url, STREAM, low, high)
    return [(Path(file.uri.removeprefix("file://")), file.filter) for file in found]


def _duckdb(bench: Bench, files: list[tuple[Path, str]], query: Query) -> tuple[object, ...]:
    """Count and hash: one scan for each condition that some of the files share."""
    by_condition: dict[str, list[Path]] = {}
    for path, condition in files:
        by_condition.setdefault(condition, []).append(path)
    columns = ", ".join(query.columns) if query.columns else f"* EXCLUDE ({_SOURCE})"
    parts = [
        f"SELECT {columns} FROM read_parquet({peers.listed(paths)}) WHERE {condition or 'true'}"  # noqa: S608 - ours
        for condition, paths in by_condition.items()
    ]
    hashed = columns if query.columns else "*COLUMNS(*)"
    union = " UNION ALL ".join(parts)
    with bench.duckdb() as connection:
        answer = connection.execute(f"SELECT count(*), bit_xor(hash({hashed})) FROM ({union})")  # noqa: S608 - ours
        return tuple(answer.fetchone() or ())
