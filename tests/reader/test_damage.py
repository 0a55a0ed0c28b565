"""A reader never silently returns less: what is damaged is named, and what vanishes is looked for again, once."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from buckets import Call, Spy
from lakes import DAY, FIRST_DAY, HOUR, SCHEMA, STREAM, Lake, rows
from scenes import SCENES, Seen, four, replace, seen, tables

import drystone
from drystone.block import keys
from drystone.block.guards import Pin
from drystone.block.meta import META_FILE
from drystone.block.states import Times
from drystone.errors import DamagedStreamError
from drystone.plan.removal import plan_sweep
from drystone.reader import look
from drystone.reader.view import IncompleteReadWarning
from drystone.testing.streams import build_block, with_source

CHUNK = "chunks/000001.parquet"


def read(lake: Lake) -> Seen:
    """Return what a scan gives."""
    return seen(drystone.scan(lake.bucket, STREAM))


def _remove_chunk(lake: Lake) -> None:
    lake.file("b", CHUNK).unlink()


def _cut_chunk(lake: Lake) -> None:
    path = lake.file("b", CHUNK)
    path.write_bytes(path.read_bytes()[:-1])


def _garble_chunk(lake: Lake) -> None:
    path = lake.file("b", CHUNK)
    raw = path.read_bytes()
    path.write_bytes(b"\xff" * (len(raw) - 8) + raw[-8:])


def _cut_meta(lake: Lake) -> None:
    path = lake.file("b", META_FILE)
    modified = path.stat().st_mtime_ns
    path.write_bytes(path.read_bytes()[:100])
    os.utime(path, ns=(modified, modified))


@pytest.mark.parametrize("harm", [_remove_chunk, _cut_chunk, _garble_chunk, _cut_meta])
def test_damage_stops_a_read(tmp_path: Path, harm: Callable[[Lake], None]) -> None:
    """A read of a damaged block raises, naming it; with allow_incomplete it reads all the others, and says so."""
    lake = four(tmp_path)
    harm(lake)
    with pytest.raises(DamagedStreamError, match=lake.ulid("b")) as caught:
        read(lake)
    assert not caught.value.retryable
    with pytest.warns(IncompleteReadWarning, match=lake.ulid("b")):
        found = seen(drystone.scan(lake.bucket, STREAM, allow_incomplete=True))
    assert found == seen(tables(0, 2, 3))


@pytest.mark.parametrize("harm", [_remove_chunk, _cut_chunk, _cut_meta])
def test_damage_that_another_block_makes_good_stops_nobody(tmp_path: Path, harm: Callable[[Lake], None]) -> None:
    """A damaged block whose rows are all read from elsewhere harms no reader."""
    lake = four(tmp_path)
    lake.merge("f", "a", "b")
    harm(lake)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert read(lake) == seen(tables(0, 1, 2, 3))


def test_a_group_that_lost_a_member_is_damage(tmp_path: Path) -> None:
    """Once its inputs are gone, half a group is not read as if it were the whole."""
    lake = four(tmp_path)
    lake.merge("f", "a", "b", cut="Lund")
    for name in "ab":
        shutil.rmtree(lake.file(name, META_FILE).parent)
    shutil.rmtree(lake.file("f1", META_FILE).parent)
    with pytest.raises(DamagedStreamError, match=r"member 1 of 2 cannot be read.*2 of its sources are nowhere else"):
        read(lake)


def test_damage_elsewhere_in_time_stops_nobody(tmp_path: Path) -> None:
    """A damaged block of one day does not keep anybody from reading another."""
    lake = four(tmp_path)
    lake.ingest("e", rows(4, day=1))
    _cut_chunk(lake)
    start = lake.blocks["e"].min_time
    assert seen(drystone.scan(lake.bucket, STREAM, start)) == seen(rows(4, day=1))


def test_what_is_foreign_or_partial_is_reported_and_not_read(tmp_path: Path) -> None:
    """Another tool's block, a folder in lower case, and an upload that died change nothing for readers."""
    lake = four(tmp_path)
    other = "01AAAAAAAAAAAAAAAAAAAAAAAA"
    meta = lake.blocks["a"].to_json().replace(lake.ulid("a").encode(), other.encode()).replace(b'"drystone', b'"other')
    lake.bucket.put(keys.block(STREAM, other, META_FILE), meta)
    lake.bucket.put(keys.block(STREAM, other.lower(), META_FILE), meta)
    lake.bucket.put(keys.block(STREAM, "01BBBBBBBBBBBBBBBBBBBBBBBB", CHUNK), b"half")
    lake.clock.advance(HOUR)
    problems = {(problem.kind, problem.name) for problem in look(lake.bucket, STREAM).timeline.problems}
    assert ("foreign", other) in problems
    assert ("stray", f"{STREAM}/{other.lower()}") in problems
    assert read(lake) == seen(tables(0, 1, 2, 3))


def vanishing(lake: Lake, name: str, then: Callable[[], None] = lambda: None) -> Spy:
    """Return a bucket in which a block is swept when its first chunk is first read."""
    gone = [False]

    def before(call: Call) -> None:
        if call.verb == "get_range" and call.key == keys.block(STREAM, lake.ulid(name), CHUNK) and not gone[0]:
            gone[0] = True
            then()
            shutil.rmtree(lake.file(name, META_FILE).parent)

    return Spy(lake.bucket, before)


@pytest.mark.parametrize("name", list("abcd"))
def test_a_block_that_is_merged_and_swept_during_a_read(tmp_path: Path, name: str) -> None:
    """The reader looks again, finds the rows in the new block, and gives none twice and none too few."""
    lake = four(tmp_path)

    def merge() -> None:
        lake.merge("f", "a", "b", "c", "d")

    assert seen(drystone.scan(vanishing(lake, name, merge), STREAM)) == seen(tables(0, 1, 2, 3))


def test_a_source_that_is_replaced_during_a_read(tmp_path: Path) -> None:
    """What was read already is not read again as its replacement, when another block makes the reader look again."""
    lake = four(tmp_path)

    def change() -> None:
        replace(lake, "a", "a2", rows(0))
        lake.merge("f", "b", "c", "d")

    bucket = vanishing(lake, "d", change)
    found = seen(drystone.scan(bucket, STREAM))
    assert [row["count"] for row in values_of(found)] == [row["count"] for row in values_of(seen(tables(0, 1, 2, 3)))]


def test_what_a_block_had_left_out_is_read_from_what_replaces_it(tmp_path: Path) -> None:
    """A second look does not take a source for read that a merge had dropped as replaced: its replacement is read."""
    lake = four(tmp_path)
    replace(lake, "a", "a2", rows(7))
    lake.given["a"] = lake.given["a"].slice(0, 0)
    extension = lake.blocks["a2"].drystone
    assert extension is not None
    lake.merge("f", "a", "b", retires=extension.retires)

    def merge() -> None:
        lake.merge("g", "c", "d")

    found = seen(drystone.scan(vanishing(lake, "c", merge), STREAM))
    assert values_of(found) == values_of(seen(tables(1, 2, 3, 7)))


def values_of(found: Seen) -> Seen:
    """Return rows sorted by their number."""
    return sorted(found, key=lambda row: row["count"])


def test_a_block_that_is_really_gone_is_damage(tmp_path: Path) -> None:
    """If nothing has taken its place, rows are missing: the second look ends with what is known, or says so."""
    lake = four(tmp_path)
    again = [0]

    def before(call: Call) -> None:
        if call.verb == "get_range" and lake.ulid("c") in call.key:
            again[0] += 1
            lake.file("c", CHUNK).unlink(missing_ok=True)

    with pytest.raises(DamagedStreamError, match=lake.ulid("c")):
        seen(drystone.scan(Spy(lake.bucket, before), STREAM))
    assert again[0] <= 2


def test_a_group_is_not_begun_twice(tmp_path: Path) -> None:
    """If a member vanishes after rows of its group were given, the read fails rather than double them."""
    lake = four(tmp_path)
    lake.merge("f", "a", "b", "c", "d", cut="Lund")

    def merge() -> None:
        lake.merge("g", "f", "f1")

    lake.given["f1"] = lake.given["f"].slice(0, 0)
    with pytest.raises(DamagedStreamError, match=f"block {lake.ulid('f1')} vanished in the middle"):
        seen(drystone.scan(vanishing(lake, "f1", merge), STREAM))


def test_a_pin_is_there_before_the_look_and_as_long_as_the_read(tmp_path: Path) -> None:
    """Nothing is listed before the pin is written; while it is there a sweep deletes nothing; then it is gone."""
    lake = four(tmp_path)
    lake.merge("f", "a", "b", "c", "d")
    lake.mark("a")
    spy = Spy(lake.bucket)
    batches = drystone.scan(spy, STREAM, pin=True)
    next(batches)
    (pin,) = (item.key for item in lake.bucket.list(keys.pins(STREAM)))
    assert (spy.calls[0].verb, spy.calls[0].key) == ("create", pin)
    assert Pin.model_validate_json(lake.bucket.get(pin)).expires > lake.clock.now + 20 * HOUR
    assert swept(lake) == ([], ["a long read has pinned the stream"])
    batches.close()  # type: ignore[attr-defined]
    assert list(lake.bucket.list(keys.pins(STREAM))) == []
    assert swept(lake) == ([lake.ulid("a")], [])


def swept(lake: Lake) -> tuple[list[str], list[str]]:
    """Return what a sweep would delete two hours from the start, and why it would leave what it leaves."""
    view = look(lake.bucket, STREAM)
    plan = plan_sweep(view.snapshot, view.timeline, Times(), "P")
    return [delete.ulid for delete in plan.deletes], [skip.reason for skip in plan.skipped]


def test_blocks_and_row_groups_out_of_range_are_not_read(tmp_path: Path) -> None:
    """Of blocks out of range nothing is read but meta.json; of a block in range, only row groups that may hold rows."""
    lake = SCENES["no block at all"](tmp_path).lake
    days = [_many(day) for day in (0, 1)]
    for name, table in zip("ab", days, strict=True):
        table = with_source(table, lake.source(name))  # noqa: PLW2901 - the same rows, with their source
        lake.blocks[name] = build_block(lake.bucket, STREAM, lake.config, table, lake.clock, row_group_rows=100_000)
    start = lake.blocks["b"].min_time
    spy, whole, none = (Spy(lake.bucket) for _ in range(3))
    some = sum(batch.num_rows for batch in drystone.scan(spy, STREAM, start, start + HOUR))
    assert some == -(-HOUR // 216)
    asked = spy.of("get", "get_range")
    assert [key for key in asked if lake.ulid("a") in key] == [keys.block(STREAM, lake.ulid("a"), META_FILE)]
    assert keys.block(STREAM, lake.ulid("b"), "index") in asked
    assert sum(batch.num_rows for batch in drystone.scan(whole, STREAM, start)) == 400_000
    few = sum(batch.num_rows for batch in drystone.scan(none, STREAM, start + DAY))
    assert (few, none.of("get_range")) == (0, [])
    read, everything = (sum(call.size for call in each.calls if call.verb == "get_range") for each in (spy, whole))
    assert 0 < read < everything / 2
    narrow = Spy(lake.bucket)
    assert sum(batch.num_rows for batch in drystone.scan(narrow, STREAM, start, columns=["city"])) == 400_000
    assert sum(call.size for call in narrow.calls if call.verb == "get_range") < everything * 4 / 5, "columns"


def _many(day: int) -> pa.Table:
    """Return 400,000 rows of one city and day; their ratios do not compress."""
    numbers = np.arange(400_000)
    times = (FIRST_DAY + day * DAY + numbers * 216) * 1000
    ratios = np.random.default_rng(day).random(len(numbers))
    columns = {"time": times, "city": ["Oslo"] * len(numbers), "count": numbers, "ratio": ratios}
    return pa.table(columns).cast(SCHEMA)
