"""Every reader sees every row exactly once, whatever overlaps, and only the rows and columns that it asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from lakes import DAY, FIRST_DAY, HOUR, STREAM, make_lake, rows
from scenes import SCENES, Scene, Seen, erase, seen

import drystone
from drystone.block.edits import Expire
from drystone.block.predicates import Comparison
from drystone.bucket import LocalBucket
from drystone.errors import BucketError, UsageError
from drystone.reader.scanning import to_ms
from drystone.rows import expressions
from drystone.timeline import timeline
from drystone.timeline.pending import PendingEdit


def with_duckdb(scene: Scene, **limits: Any) -> Seen:
    """Return what DuckDB sees in the files that `drystone.files` lists."""
    found: Seen = []
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for read in drystone.files(scene.lake.bucket, STREAM, **limits):
            where = f" WHERE {read.filter}" if read.filter else ""
            query = "SELECT * EXCLUDE (__source) FROM read_parquet($path)" + where
            path = read.uri.removeprefix("file://")
            found += connection.execute(query, {"path": path}).to_arrow_table().to_pylist()
    return found


@pytest.mark.parametrize("name", SCENES)
def test_readers_are_exact(name: str, tmp_path: Path) -> None:
    """`drystone.scan`, and DuckDB with what `drystone.files` lists, give every row once, and none that is gone."""
    scene = SCENES[name](tmp_path)
    assert seen(drystone.scan(scene.lake.bucket, STREAM)) == scene.truth
    # What a file lacks DuckDB cannot show.
    plain, found = (
        [{key: row[key] for key in ("time", "city", "count")} for row in each]
        for each in (scene.truth, with_duckdb(scene))
    )
    assert sorted(map(repr, found_in_utc(found))) == sorted(map(repr, found_in_utc(plain)))


def found_in_utc(rows_: Seen) -> Seen:
    """Return the rows with times in one spelling of UTC."""
    return [{**row, "time": row["time"] and row["time"].astimezone(UTC)} for row in rows_]


@pytest.mark.parametrize("name", ["everything at once", "a replaced source", "expired rows"])
def test_a_time_range_is_half_open(name: str, tmp_path: Path) -> None:
    """Rows at the start are in, rows at the end are not, whichever block they lie in, for both readers."""
    scene = SCENES[name](tmp_path)
    times = sorted({to_ms(row["time"]) or 0 for row in scene.truth})
    start, end = times[len(times) // 4], times[3 * len(times) // 4]
    inside = [row for row in scene.truth if start <= (to_ms(row["time"]) or 0) < end]
    assert 0 < len(inside) < len(scene.truth)
    assert seen(drystone.scan(scene.lake.bucket, STREAM, start, end)) == inside
    moments = [datetime.fromtimestamp(ms / 1000, UTC) for ms in (start, end)]
    assert seen(drystone.scan(scene.lake.bucket, STREAM, *moments)) == inside
    assert seen(drystone.scan(scene.lake.bucket, STREAM, *(each.replace(tzinfo=None) for each in moments))) == inside
    assert len(with_duckdb(scene, start=start, end=end)) == len(inside)
    before, after = (seen(drystone.scan(scene.lake.bucket, STREAM, *each)) for each in ((None, start), (end, None)))
    assert len(before) + len(inside) + len(after) == len(scene.truth)
    assert seen(drystone.scan(scene.lake.bucket, STREAM, start, start)) == []


def test_a_row_without_a_time_is_in_no_time_range(tmp_path: Path) -> None:
    """Whatever the range, and wherever such rows lie; without a range every reader gets them."""
    scene = SCENES["rows without a time"](tmp_path)
    known = [row for row in scene.truth if row["time"] is not None]
    assert 0 < len(known) < len(scene.truth)
    assert len(list_of(drystone.scan(scene.lake.bucket, STREAM, columns=["count"]))) == len(scene.truth)
    for start, end in ((0, None), (None, 1 << 45), (FIRST_DAY, FIRST_DAY + DAY), (0, 1 << 45)):
        assert seen(drystone.scan(scene.lake.bucket, STREAM, start, end)) == known
        assert len(with_duckdb(scene, start=start, end=end)) == len(known)


def list_of(batches: Iterable[pa.RecordBatch]) -> list[Any]:
    """Return the rows."""
    return pa.Table.from_batches(batches).to_pylist()


def reads_all_of_what_lies_within(patch: pytest.MonkeyPatch) -> None:
    """A block whose range lies in the one that was asked for is read whole."""
    patch.setattr("drystone.reader.view._unknown_times", lambda _meta: 0)


def opens_every_row_group(patch: pytest.MonkeyPatch) -> None:
    """A null matches a time range."""
    real = expressions.between
    patch.setattr(expressions, "between", lambda *them: real(*them) | pc.field("time").is_null())


def expires_what_has_no_time(patch: pytest.MonkeyPatch) -> None:
    """A row without a time counts as older than all others."""
    real = expressions.dropped_by

    def planted(edit: PendingEdit, *them: Any) -> pc.Expression:
        return real(edit, *them) | pc.field("time").is_null() if isinstance(edit.edit, Expire) else real(edit, *them)

    patch.setattr(expressions, "dropped_by", planted)


@pytest.mark.parametrize("plant", [reads_all_of_what_lies_within, opens_every_row_group, expires_what_has_no_time])
def test_wrong_answers_about_unknown_times_are_seen(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With this bug in the code, the tests above fail."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_row_without_a_time_is_in_no_time_range(tmp_path)


def test_columns_come_as_they_are_asked_for(tmp_path: Path) -> None:
    """Only these columns, in this order, with the filters still in force although their columns are not shown."""
    scene = SCENES["everything at once"](tmp_path)
    table = pa.Table.from_batches(drystone.scan(scene.lake.bucket, STREAM, columns=["ratio", "count"]))
    assert table.column_names == ["ratio", "count"]
    assert sorted(table["count"].to_pylist()) == sorted(row["count"] for row in scene.truth)
    every = pa.Table.from_batches(drystone.scan(scene.lake.bucket, STREAM))
    assert every.column_names == ["time", "city", "count", "ratio"], "no __source"


def test_a_column_that_some_blocks_lack_is_null_there(tmp_path: Path) -> None:
    """Also where it is the only one that was asked for, every row is there."""
    scene = SCENES["blocks of two schemas"](tmp_path)
    table = pa.Table.from_batches(drystone.scan(scene.lake.bucket, STREAM, columns=["more"]))
    assert sorted(map(str, table["more"].to_pylist())) == sorted(str(row["more"]) for row in scene.truth)
    assert pa.Table.from_batches(drystone.scan(scene.lake.bucket, STREAM)).schema.field("count").type == pa.int64()


def test_what_does_not_exist_is_named(tmp_path: Path) -> None:
    """An unknown column, stream or bucket is an error that says what there is, and what to do."""
    lake = SCENES["four blocks"](tmp_path).lake
    with pytest.raises(UsageError, match=r"no column town\. It has time, city, count, ratio"):
        next(drystone.scan(lake.bucket, STREAM, columns=["city", "town"]))
    with pytest.raises(UsageError, match="has no stream 'other'"):
        next(drystone.scan(lake.bucket, "other"))
    with pytest.raises(UsageError, match="has no stream"):
        next(drystone.scan(f"file://{tmp_path}/nowhere", STREAM))
    with pytest.raises(UsageError, match="cannot name a stream"):
        next(drystone.scan(lake.bucket, "../other"))


def test_an_empty_stream_has_no_rows(tmp_path: Path) -> None:
    """A stream without a readable block gives nothing, whatever columns one asks for."""
    lake = make_lake(tmp_path)
    assert list(drystone.scan(lake.bucket, STREAM, columns=["city"])) == []
    lake.clock.advance(2 * HOUR)
    lake.ingest("fresh", rows(0))
    assert list(drystone.scan(lake.bucket, STREAM)) == []
    assert drystone.files(lake.bucket, STREAM) == []


def test_another_generation_is_not_read(tmp_path: Path) -> None:
    """Blocks of another generation are left alone, even where their types cannot be put beside the others'."""
    scene = SCENES["four blocks"](tmp_path)
    lake, old = scene.lake, scene.lake.config
    text = rows(5).set_column(2, "count", rows(5)["count"].cast(pa.string()))
    lake.config = old.model_copy(update={"generation": 1})
    lake.ingest("other", text)
    lake.config = old
    assert seen(drystone.scan(lake.bucket, STREAM)) == scene.truth


def test_nan_is_compared_alike_by_all_readers(tmp_path: Path) -> None:
    """A comparison with NaN is not true, so an erase of what is greater does not take it away, for any reader."""
    lake = make_lake(tmp_path)
    ratios = pa.array([float("nan"), 9.0, 1.0, None] + [0.0] * 26, pa.float64())
    lake.ingest("a", rows(0).set_column(3, "ratio", ratios))
    erase(lake, Comparison(column="ratio", op=">", value=5))
    scene = Scene(lake, [])
    assert len(seen(drystone.scan(lake.bucket, STREAM))) == len(with_duckdb(scene)) == 29


@pytest.mark.parametrize("name", ["a source uploaded twice", "a zombie's merge across another", "retired sources"])
def test_a_reader_without_owners_would_be_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If visible groups were read whole, rows would come twice, or back: the tests above see that."""
    scene = SCENES[name](tmp_path)
    resolve = timeline.resolve

    def planted(*arguments: Any) -> timeline.Timeline:
        found = resolve(*arguments)
        whole = {group.id: timeline.Visible(group, frozenset(), frozenset(), ()) for group in found.groups.values()}
        return replace(found, visible=whole)

    monkeypatch.setattr("drystone.reader.view.resolve", planted)
    assert seen(drystone.scan(scene.lake.bucket, STREAM)) != scene.truth


def test_days_are_told_apart(tmp_path: Path) -> None:
    """The helper's days are days of the stream."""
    times = rows(0, day=1)["time"].cast(pa.int64())
    assert FIRST_DAY + DAY <= pc.min(times).as_py() // 1000 < FIRST_DAY + 2 * DAY
    assert LocalBucket(tmp_path).url.startswith("file:///")


def test_a_look_that_takes_longer_than_a_read_may_is_an_error(tmp_path: Path) -> None:
    """Who fell asleep between its clock and its listing would find old blocks gone and new ones too young: no rows."""
    scene = SCENES["everything at once"](tmp_path)
    limit = scene.lake.config.times.read_timeout
    for took, fails in ((limit, False), (limit + 1_000, True)):
        now = to_ms(datetime.now(UTC)) or 0
        times = iter([now, now + took])
        with pytest.raises(BucketError, match="longer than its read_timeout") if fails else nullcontext() as caught:
            list(drystone.scan(scene.lake.bucket, STREAM, now=lambda times=times: next(times)))  # type: ignore[misc]
        assert caught is None or caught.value.retryable
