"""Rows without a time through a stream's whole life: merged, expired, erased, swept, and never in a time range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from lakes import DAY, FIRST_DAY, HOUR, SCHEMA, STREAM, Lake, make_lake
from runs import Runs
from scenes import edit, erase

from drystone import scan
from drystone.block import edits
from drystone.block.predicates import Comparison
from drystone.engine import compact
from drystone.engine.verify import verify_stream
from drystone.rows import expressions
from drystone.rows.writer import Built
from drystone.testing.streams import build_block, source_id, with_source
from drystone.timeline.pending import PendingEdit

CITIES = ("Bergen", "Lund", "Oslo", "Rome", None)
SEEDS = range(10)


class Row(NamedTuple):
    """A row's time in ms, None if unknown, its city, and the end of the time chunk that it came into."""

    time: int | None
    city: str | None
    end: int


@dataclass
class Life:
    """A stream, and the rows that it must show, by their number."""

    lake: Lake
    runs: Runs
    dice: Random
    truth: dict[int, Row] = field(default_factory=dict)
    expired: int = 0
    number: int = 0

    def ingest(self) -> None:
        """A block of a day comes in: all of its rows have a time, or some, or none, and then it is the day's of now."""
        now = self.lake.clock.now
        day = FIRST_DAY + self.dice.randint(0, 2) * DAY
        unknown = self.dice.choice([0.0, 0.4, 1.0])
        rows: dict[int, Row] = {}
        for _ in range(self.dice.randint(1, 20)):
            self.number += 1
            time = None if self.dice.random() < unknown else day + self.dice.randrange(DAY)
            rows[self.number] = Row(time, self.dice.choice(CITIES), day + DAY)
        if all(row.time is None for row in rows.values()):
            rows = {number: row._replace(end=now // DAY * DAY + DAY) for number, row in rows.items()}
        self.truth |= rows
        times = pa.array([row.time for row in rows.values()], pa.timestamp("ms", "UTC")).cast(SCHEMA.field(0).type)
        nothing = pa.nulls(len(rows), pa.float64())
        columns = [times, pa.array([row.city for row in rows.values()]), pa.array(rows, pa.int32()), nothing]
        table = with_source(pa.table(columns, schema=SCHEMA), source_id(now, str(self.number)))
        build_block(self.lake.bucket, STREAM, self.lake.config, table, self.lake.clock, row_group_rows=8)

    def compact(self) -> None:
        """A compaction of any kind does all that there is to do."""
        for outcome in self.runs.compact(self.dice.choice(["minor", "major", "rewrite"])):
            assert outcome.failures == []

    def expire(self) -> None:
        """Everything before some hour is too old."""
        self.expired = max(self.expired, FIRST_DAY + self.dice.randint(0, 12) * 6 * HOUR)
        edit(self.lake, edits.Expire, before=self.expired)

    def erase(self) -> None:
        """A city is erased, whatever the rows' times."""
        erase(self.lake, Comparison(column="city", op="=", value="Oslo"))
        self.truth = {number: row for number, row in self.truth.items() if row.city != "Oslo"}

    def remove(self) -> None:
        """What nobody reads goes."""
        self.runs.mark()
        self.lake.clock.advance(HOUR)
        self.runs.sweep()

    def check(self) -> None:
        """Compare what readers see with what they must see: rows of the range, or all, each once."""
        known = {n for n, row in self.truth.items() if row.time is not None and row.time >= self.expired}
        unknown = {n for n, row in self.truth.items() if row.time is None}
        kept = {n for n in unknown if self.truth[n].end > self.expired}
        found = self.read()
        assert len(found) == len(set(found))
        assert known | kept <= set(found) <= known | unknown
        assert sorted(self.read(0, 1 << 45)) == sorted(known)
        start = FIRST_DAY + self.dice.randint(0, 60) * HOUR
        end = start + self.dice.choice([1, 24, 48]) * HOUR
        assert set(self.read(start, end)) == {n for n in known if start <= (self.truth[n].time or 0) < end}
        assert verify_stream(self.lake.bucket, STREAM, self.lake.clock.now, deep=True).findings == ()

    def read(self, start: int | None = None, end: int | None = None) -> list[int]:
        """Return the numbers of the rows that a reader gets."""
        batches = scan(self.lake.bucket, STREAM, start, end, columns=["count"], now=self.lake.clock)
        return [number for batch in batches for number in batch.column(0).to_pylist()]


def live(seed: int, folder: Path) -> None:
    """Let a stream live at random, and look at it after each act; in the end everything expires, and is deleted."""
    lake = make_lake(folder)
    lake.clock.now = FIRST_DAY + 5 * HOUR
    life = Life(lake, Runs(lake.bucket, STREAM, lake.config, lake.clock), Random(seed))
    acts = [life.ingest, life.ingest, life.ingest, life.compact, life.compact, life.expire, life.erase, life.remove]
    for _ in range(12):
        life.dice.choice(acts)()
        lake.clock.advance(2 * HOUR)
        life.check()
    edit(lake, edits.Expire, before=FIRST_DAY + 40 * DAY)
    lake.clock.advance(2 * HOUR)
    assert life.read() == [], "with its chunk a row goes whose time nobody knows"
    for _ in range(2):
        life.remove()
        lake.clock.advance(2 * HOUR)
    assert not [item.key for item in lake.bucket.list(f"{STREAM}/0")], "nothing is kept for ever"


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_without_a_time_live_as_long_as_their_chunk(seed: int, tmp_path: Path) -> None:
    """Every row is read once, in a range only with a time in it, until it expires, is erased, or its chunk goes."""
    live(seed, tmp_path)


def a_block_ends_with_its_last_time(patch: pytest.MonkeyPatch) -> None:
    """Rows without a time do not count for a block's time range."""
    real = Built.time_range

    def planted(built: Built, within: tuple[int, int]) -> tuple[int, int]:
        low = within[0]
        return (low, low) if built.min_time is None else real(built, (built.min_time, built.max_time or low))

    patch.setattr(Built, "time_range", planted)


def a_merge_cuts_what_has_no_time(patch: pytest.MonkeyPatch) -> None:
    """To a merge, a row without a time is older than every retention."""

    def planted(pending: PendingEdit, *them: Any) -> Any:
        hit = expressions.dropped_by(pending, *them)
        return hit | expressions.pc.field("time").is_null() if isinstance(pending.edit, edits.Expire) else hit

    patch.setattr(compact, "dropped_by", planted)


def a_block_forgets_them(patch: pytest.MonkeyPatch) -> None:
    """Blocks do not say that they hold such rows."""
    patch.setattr("drystone.reader.view._unknown_times", lambda _meta: 0)


@pytest.mark.parametrize(
    "plant", [a_block_ends_with_its_last_time, a_merge_cuts_what_has_no_time, a_block_forgets_them]
)
def test_a_planted_bug_is_seen(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With this bug in the code, some life shows it."""
    plant(monkeypatch)

    def breaks(seed: int) -> bool:
        try:
            live(seed, tmp_path / str(seed))
        except AssertionError:
            return True
        return False

    assert any(breaks(seed) for seed in SEEDS), plant.__doc__
