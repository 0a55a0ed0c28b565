"""A stream `events` of real blocks in a local folder, written two hours ago, and the terminal to look at it with."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from typer.testing import CliRunner

from drystone import ulids
from drystone.block import edits, keys
from drystone.block.marks import DELETION_MARK, DeletionMark
from drystone.block.meta import Group, Meta, Parent
from drystone.block.predicates import Comparison
from drystone.bucket import LocalBucket
from drystone.cli.app import app
from drystone.config.load import load
from drystone.config.model import StreamConfig
from drystone.testing.streams import (
    FIRST_GENERATION,
    Lineage,
    ManualClock,
    build_block,
    source_id,
    with_source,
    write_record,
)

STREAM = "events"
HOUR = 3_600_000
DAY = 24 * HOUR
FIRST_DAY = 1_357_000_000_000 // DAY * DAY
"""2013-01-01 in ms."""

CONFIG = """
version: 1
bucket: file:bucket
streams:
  events:
    labels: {dataset: events}
    time_column: time
    sort_key: [city, time]
    schema: {time: timestamp, city: string, count: int32, ratio: float64}
    granularity: {ingest: day, major: month}
    ingest: {kind: files, path: "input/*.csv", format: csv}
"""
SCHEMA = pa.schema({"time": pa.timestamp("us", "UTC"), "city": pa.string(), "count": pa.int32(), "ratio": pa.float64()})
Row = tuple[int, str, int, float | None]


@dataclass(frozen=True)
class Said:
    """What a command said, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The document on stdout."""
        return json.loads(self.out)


def rows(number: int, *, day: int = 0, cities: Iterable[str] = ("Bergen", "Lund", "Oslo")) -> pa.Table:
    """Return 30 rows of a day, different for each number."""
    names = list(cities)
    start = FIRST_DAY + day * DAY
    found = [
        {
            "time": (start + (number * 37 + row * 13) % 1440 * 60_000) * 1000,
            "city": names[row % len(names)],
            "count": number * 1000 + row,
            "ratio": None if row % 7 == 0 else row / 3,
        }
        for row in range(30)
    ]
    return pa.Table.from_pylist(found).cast(SCHEMA)


def without_time(table: pa.Table, which: str = "all") -> pa.Table:
    """Return the rows without their times: all, or those of a city only."""
    times = pc.if_else(pc.equal(table["city"], which), pa.scalar(None, table["time"].type), table["time"])
    lost = pa.nulls(table.num_rows, table["time"].type) if which == "all" else times
    return table.set_column(0, "time", lost)


def values(table: pa.Table) -> list[Row]:
    """Return the rows as a list that does not depend on their order, times in microseconds."""
    plain = table.select(SCHEMA.names).cast(pa.schema([SCHEMA.field(0).with_type(pa.int64()), *list(SCHEMA)[1:]]))
    return sorted((tuple(row.values()) for row in plain.to_pylist()), key=lambda row: row[2])


@dataclass
class Lake:
    """The stream, its blocks by name, and what they were made of."""

    folder: Path
    clock: ManualClock
    bucket: LocalBucket
    config: StreamConfig
    blocks: dict[str, Meta] = field(default_factory=dict)
    given: dict[str, pa.Table] = field(default_factory=dict)
    planned_at: int = 0
    """When every source was planned: the same, however far the clock is put."""

    def __post_init__(self) -> None:
        """Fix the time of planning."""
        self.planned_at = self.planned_at or self.clock.now // DAY * DAY

    @property
    def config_file(self) -> Path:
        """The configuration file."""
        return self.folder / "drystone.yaml"

    def ulid(self, name: str) -> str:
        """Return the ULID of a block."""
        return self.blocks[name].ulid

    def file(self, name: str, file: str) -> Path:
        """Return a file of a block."""
        return self.bucket.path(keys.block(STREAM, self.ulid(name), file))

    def source(self, name: str) -> str:
        """Return the id of a source."""
        return source_id(self.planned_at, name)

    def ingest(self, name: str, table: pa.Table, *, source: str = "", **lineage: Any) -> Meta:
        """Upload a first-generation block; its source has the same name, or that of another one."""
        self.given[name] = with_source(table, self.source(source or name))
        return self.upload(name, self.given[name], Lineage(**lineage))

    def merge(self, name: str, *inputs: str, cut: str = "", **lineage: Any) -> list[Meta]:
        """Upload what a compaction of these blocks would: one block, or two that are cut before a city."""
        table = pa.concat_tables([self.given[each] for each in inputs])
        sources = frozenset().union(*(self.blocks[each].compaction.sources for each in inputs))
        self.given[name] = table
        city = table["city"]
        before = pc.less(city, cut)
        parts = [table.filter(before), table.filter(pc.invert(before))] if cut else [table]
        parents = tuple(
            Parent(ulid=meta.ulid, min_time=meta.min_time, max_time=meta.max_time)
            for meta in (self.blocks[each] for each in inputs)
        )
        group = ulids.new(self.clock.now)
        found = []
        for index, part in enumerate(parts):
            own = Group(id=group, size=len(parts), index=index)
            origin = Lineage(level=2, group=own, parents=parents, **lineage)
            found.append(self.upload(name if index == 0 else f"{name}{index}", part, origin, sources))
        return found

    def mark(self, name: str, *, as_block: str = "") -> None:
        """Mark a block for deletion, or as another block."""
        note = DeletionMark(id=as_block or self.ulid(name), details="covered", deletion_time=self.clock.now // 1000)
        self.bucket.put(keys.block(STREAM, self.ulid(name), DELETION_MARK), note.to_json())

    def erase(self, city: str) -> None:
        """Erase the rows of a city, as an edit that no block has applied."""
        name = ulids.new(self.clock.now)
        predicate = Comparison(column="city", op="=", value=city)
        edit = edits.Erase(id=name, reason="asked", author="test", time=self.clock.now, predicate=predicate)
        self.bucket.create(keys.edit(STREAM, name), edit.to_json())

    def copy(self, folder: Path) -> Lake:
        """Return the same stream, its objects' times included, in another folder: faster than making it again."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        clock = ManualClock(self.clock.now)
        bucket = LocalBucket(folder / "bucket", clock)
        return Lake(folder, clock, bucket, self.config, dict(self.blocks), dict(self.given))

    def drystone(self, *arguments: object, config: bool = True) -> Said:
        """Run a command of the terminal in this process; an error that is no exit code is raised."""
        words = [str(each) for each in arguments]
        found = CliRunner().invoke(app, [*words, *(["--config", str(self.config_file)] if config else [])])
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return Said(found.exit_code, found.stdout, found.stderr)

    def upload(
        self, name: str, table: pa.Table, lineage: Lineage = FIRST_GENERATION, sources: Iterable[str] = ()
    ) -> Meta:
        """Upload a block of rows that name their sources; `sources`: the whole set, if it is a larger one."""
        self.clock.advance(1000)
        meta = build_block(
            self.bucket,
            STREAM,
            self.config,
            table,
            self.clock,
            sources=sources,
            lineage=lineage,
            row_group_rows=8,
        )
        self.blocks[name] = meta
        return meta


def make_lake(folder: Path) -> Lake:
    """Return the stream without a block, two hours ago."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.joinpath("drystone.yaml").write_text(CONFIG)
    loaded = load(folder / "drystone.yaml")
    clock = ManualClock(time.time_ns() // 1_000_000 - 2 * HOUR)
    bucket = LocalBucket(folder / "bucket", clock)
    config = loaded.stream(STREAM)
    write_record(bucket, STREAM, config)
    return Lake(folder, clock, bucket, config)


def make_busy_lake(folder: Path) -> tuple[Lake, list[Row]]:
    """Return the stream in the middle of its life, and the rows that it must show.

    `f` (two blocks) covers `a`, `b`, `c`; a zombie's `x` holds `c` and `d`, and so overlaps `f`; `e` is another day's;
    Oslo was erased a moment ago, and no block knows of it; `a` is marked; `g` is fresh, and `h` a part of an upload.
    """
    lake = make_lake(folder)
    for number, name in enumerate("abcd"):
        lake.ingest(name, rows(number))
    lake.ingest("e", rows(4, day=1))
    lake.merge("f", "a", "b", "c", cut="Lund")
    lake.merge("x", "c", "d")
    lake.mark("a")
    lake.erase("Oslo")
    truth = pa.concat_tables([rows(number) for number in range(4)] + [rows(4, day=1)])
    lake.clock.advance(2 * HOUR)
    lake.ingest("g", rows(5))
    lake.clock.advance(-2 * HOUR)
    lake.bucket.create(keys.block(STREAM, ulids.new(lake.clock.now), "chunks/000001.parquet"), b"half")
    return lake, [row for row in values(truth) if row[1] != "Oslo"]
