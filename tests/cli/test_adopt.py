"""`drystone adopt`, and blocks that come late, from elsewhere, from the future or from other tools."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from lakes import DAY, HOUR, SCHEMA, STREAM, Lake, make_lake, rows, values
from scenes import edit, four, tables
from thanos_blocks import parquet_block, series_block

from drystone import clock, ulids
from drystone.block import edits, keys
from drystone.block.marks import DELETION_MARK, DeletionMark
from drystone.block.meta import META_FILE, parse
from drystone.engine import audit
from drystone.reader import scan

Later = Callable[[int], None]


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Later:
    """A function that puts the terminal's clock forward by some ms."""
    ahead = [0]
    system = clock.system
    monkeypatch.setattr(clock, "system", lambda: system() + ahead[0])

    def put(ms: int) -> None:
        ahead[0] += ms

    return put


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A stream of four blocks `a` to `d` of one day, two hours old."""
    (tmp_path / "lake").mkdir()
    return four(tmp_path / "lake")


@pytest.fixture
def backup(lake: Lake, tmp_path: Path) -> Lake:
    """A copy of the stream, made before whatever happens to it."""
    return lake.copy(tmp_path / "backup")


def read(lake: Lake) -> list:
    """What a reader sees now."""
    return values(pa.Table.from_batches(scan(lake.bucket, STREAM), SCHEMA))


def remove(lake: Lake, *names: str) -> None:
    """Lose blocks whole."""
    for name in names:
        shutil.rmtree(lake.file(name, META_FILE).parent)


def states(lake: Lake) -> dict[str, str]:
    """The state of every block."""
    return {block["ulid"]: block["state"] for block in lake.drystone("ls", STREAM, "--json").json["blocks"]}


def skips(said: dict) -> dict[str, str]:
    """What a plan leaves alone, and why."""
    return {skip["name"]: skip["reason"] for skip in said["plan"]["skipped"]}


def test_a_lost_block_comes_back_from_a_backup(lake: Lake, backup: Lake, later: Later) -> None:
    """A block that is nowhere else gets a new ULID, its own sources, and is read once it is ready; the rest is left."""
    remove(lake, "a")
    assert read(lake) == values(tables(1, 2, 3))
    dry = lake.drystone("adopt", STREAM, "--from", backup.bucket.url, "--dry-run", "--json")
    assert [action["blocks"] for action in dry.json["plan"]["adopts"]] == [[lake.ulid("a")]]
    assert set(skips(dry.json).values()) == {"every source of it is read already"}
    said = lake.drystone("adopt", STREAM, "--from", backup.bucket.url, "--reason", "a wrong delete", "--json")
    (new,) = said.json["blocks"]
    assert (said.code, new > lake.ulid("d")) == (0, True)
    assert read(lake) == values(tables(1, 2, 3))
    waiting = lake.drystone("adopt", STREAM, "--from", backup.bucket.url, "--json")
    assert skips(waiting.json)[lake.ulid("a")] == "a group that has all its sources is uploaded, and not ready yet"
    later(HOUR)
    assert read(lake) == values(tables(0, 1, 2, 3))
    assert lake.drystone("verify", STREAM, "--deep").code == 0
    (line,) = [entry for entry in audit.read(lake.bucket, STREAM) if entry.what == "adopt"]
    assert (line.block, lake.ulid("a") in line.why, "a wrong delete" in line.why) == (new, True, True)
    again = lake.drystone("adopt", STREAM, "--from", backup.bucket.url)
    assert (again.code, "nothing to do" in again.out) == (0, True)


def test_what_was_taken_away_on_purpose_stays_away(lake: Lake, backup: Lake) -> None:
    """A backup brings back neither retired nor expired nor replaced rows."""
    edit(lake, edits.Retire, sources=(lake.source("a"),))
    edit(lake, edits.Expire, before=lake.clock.now)
    said = lake.drystone("adopt", STREAM, "--from", backup.bucket.url, "--json")
    assert (said.json["blocks"], said.code) == ([], 0)
    assert skips(said.json)[lake.ulid("a")] == "all its sources are retired or replaced, and stay so"
    assert skips(said.json)[lake.ulid("b")] == "all its rows are expired, and stay so"


def test_a_group_is_adopted_whole_or_not_at_all(lake: Lake, tmp_path: Path, later: Later) -> None:
    """Naming one member takes the whole group along; a group that lacks one is left to a person."""
    lake.merge("f", "a", "b", cut="Lund")
    backup = lake.copy(tmp_path / "backup")
    remove(lake, "a", "b", "f", "f1")
    said = lake.drystone("adopt", STREAM, backup.ulid("f"), "--from", backup.bucket.url, "--json")
    assert len(said.json["blocks"]) == 2
    later(HOUR)
    assert read(lake) == values(tables(0, 1, 2, 3))
    remove(backup, "f1")
    half = lake.drystone("adopt", STREAM, backup.ulid("f"), "--from", backup.bucket.url)
    assert (half.code, "1 of the 2 blocks of its group" in half.out) == (1, True)


def test_a_damaged_copy_is_refused(lake: Lake, backup: Lake) -> None:
    """Files are held against their digests on the way: what is damaged does not come in."""
    remove(lake, "a")
    chunk = backup.file("a", "chunks/000001.parquet")
    data = bytearray(chunk.read_bytes())
    data[50] ^= 1
    chunk.write_bytes(data)
    said = lake.drystone("adopt", STREAM, "--from", backup.bucket.url, "--json")
    assert (said.code, said.json["blocks"]) == (1, [])
    assert "is not the file that meta.json names" in said.json["failures"][0]
    assert not [ulid for ulid in states(lake) if ulid > lake.ulid("d")]


def test_a_renamed_folder_is_adopted_under_a_name_of_its_own(lake: Lake, backup: Lake, later: Later) -> None:
    """A folder that somebody gave another ULID is Malformed in the stream; adopting it brings its rows back."""
    remove(lake, "a")
    other = ulids.new(lake.clock.now + 1)
    folder = backup.file("a", META_FILE).parent
    shutil.copytree(folder, lake.file("b", META_FILE).parent.with_name(other))
    assert "names another block" in lake.drystone("inspect", STREAM).out
    named = lake.drystone("adopt", STREAM, lake.ulid("b"), "--json")
    assert skips(named.json) == {lake.ulid("b"): "it is a block of the stream already"}
    said = lake.drystone("adopt", STREAM, "--json")
    assert [action["blocks"] for action in said.json["plan"]["adopts"]] == [[other]]
    later(HOUR)
    assert lake.drystone("repair", "malformed", STREAM).code == 0
    assert other not in states(lake)
    assert read(lake) == values(tables(0, 1, 2, 3))


def test_another_streams_blocks_keep_their_sources(lake: Lake, tmp_path: Path, later: Later) -> None:
    """Blocks of another stream come in with sources of their own; a stream that is sorted otherwise is refused."""
    (tmp_path / "other").mkdir()
    other = make_lake(tmp_path / "other")
    other.ingest("x", rows(9))
    said = lake.drystone("adopt", STREAM, "--from", other.bucket.url, "--json")
    assert len(said.json["blocks"]) == 1
    later(HOUR)
    assert read(lake) == values(pa.concat_tables([tables(0, 1, 2, 3), rows(9)]))
    config = lake.config_file.read_text()
    lake.config_file.write_text(config.replace("sort_key: [city, time]", "sort_key: [time]"))
    other.ingest("y", rows(8))
    refused = lake.drystone("adopt", STREAM, "--from", other.bucket.url)
    assert refused.code != 0


def test_a_block_from_the_future_is_fresh_until_it_is_adopted(lake: Lake, later: Later) -> None:
    """A clock that is a day ahead makes blocks that are reported and Fresh; a copy of today is read, and wins later."""
    lake.clock.advance(DAY)
    lake.ingest("late", rows(7))
    lake.clock.advance(-DAY)
    late = lake.ulid("late")
    assert states(lake)[late] == "Fresh"
    assert "from the future" in lake.drystone("inspect", STREAM).out
    assert read(lake) == values(tables(0, 1, 2, 3))
    said = lake.drystone("adopt", STREAM, "--json")
    (new,) = said.json["blocks"]
    assert set(skips(said.json)) == set()
    later(HOUR)
    every = values(tables(0, 1, 2, 3)) + values(rows(7))
    assert sorted(read(lake)) == sorted(every)
    later(2 * DAY)
    assert (states(lake)[late], states(lake)[new]) == ("HealthyOverlapped", "Healthy")
    assert sorted(read(lake)) == sorted(every)


def test_a_writer_that_was_cut_off_for_hours_harms_nobody(lake: Lake, later: Later) -> None:
    """An old ULID whose meta.json arrives now is Fresh for a sync_delay from then on, and its rows count once."""
    lake.ingest("late", rows(7))
    lake.ingest("zombie's a", rows(0), source="a")
    for name in ("late", "zombie's a"):
        meta = lake.file(name, META_FILE)
        raw = meta.read_bytes()
        meta.unlink()
        meta.write_bytes(raw)  # Now, by the machine's own clock.
    assert states(lake)[lake.ulid("late")] == "Fresh"
    assert read(lake) == values(tables(0, 1, 2, 3))
    later(HOUR)
    assert sorted(read(lake)) == sorted(values(tables(0, 1, 2, 3)) + values(rows(7)))
    assert states(lake)[lake.ulid("zombie's a")] == "HealthyOverlapped"


def test_blocks_that_were_compacted_and_deleted_may_come_back(lake: Lake, tmp_path: Path) -> None:
    """A backup of compacted blocks that is put back as it was: covered where a merge has them, reads stay exact."""
    backup = lake.copy(tmp_path / "backup")
    lake.merge("f", "a", "b")
    remove(lake, "a", "b")
    for name in "ab":
        shutil.copytree(backup.file(name, META_FILE).parent, lake.file(name, META_FILE).parent)
    assert states(lake)[lake.ulid("a")] == "HealthyOverlapped"
    assert read(lake) == values(tables(0, 1, 2, 3))
    lake.merge("x", "b", "c")
    assert read(lake) == values(tables(0, 1, 2, 3))
    assert lake.drystone("verify", STREAM, "--deep").code == 0


@pytest.mark.parametrize("part", ["version", "thanos", "drystone"])
def test_a_meta_of_another_version_harms_its_own_block_only(lake: Lake, part: str) -> None:
    """A meta.json of another version makes that block alone unreadable; its rows are read from where else they are."""
    lake.merge("f", "a", "b")
    raw = json.loads(lake.file("a", META_FILE).read_bytes())
    where = {"version": raw, "thanos": raw["thanos"], "drystone": raw["thanos"]["extensions"]["drystone"]}[part]
    where["format_version" if part == "drystone" else "version"] = 9
    lake.file("a", META_FILE).write_text(json.dumps(raw))
    found = lake.drystone("inspect", STREAM, "--json").json
    assert [problem["name"] for problem in found["problems"]] == [lake.ulid("a")]
    assert read(lake) == values(tables(0, 1, 2, 3))
    marks = lake.drystone("plan", STREAM, "--kind", "mark", "--json").json["marks"]
    assert [mark["ulid"] for mark in marks] == [lake.ulid("b")]


def test_blocks_of_real_thanos_are_reported_and_left_alone(lake: Lake) -> None:
    """Series that a sidecar uploads into the stream's prefix are foreign: not read, not planned, not adopted."""
    ulid = ulids.new(lake.clock.now)
    series_block(lake.bucket, STREAM, ulid)
    found = lake.drystone("inspect", STREAM, "--json").json
    assert [(problem["kind"], problem["name"]) for problem in found["problems"]] == [("foreign", ulid)]
    assert read(lake) == values(tables(0, 1, 2, 3))
    assert ulid not in str(lake.drystone("plan", STREAM, "--json").json["merges"])
    said = lake.drystone("adopt", STREAM)
    assert (said.code, "its chunks are no Parquet files" in said.out) == (1, True)
    assert states(lake)[ulid] == "Healthy"


@pytest.mark.parametrize("as_block", ["itself", "another"])
def test_marks_of_thanos_delete_nothing_that_is_needed(lake: Lake, as_block: str, later: Later) -> None:
    """A mark that Thanos set is seen, whatever block its id names, and taken away where nothing covers the block."""
    lake.merge("f", "a", "b")
    for name in "ac":
        other = lake.ulid("d") if as_block == "another" else lake.ulid(name)
        note = DeletionMark(id=other, details="thanos tools bucket mark", deletion_time=lake.clock.now // 1000)
        lake.bucket.put(keys.block(STREAM, lake.ulid(name), DELETION_MARK), note.to_json())
    later(HOUR)
    assert states(lake)[lake.ulid("a")] == states(lake)[lake.ulid("c")] == "Deletable"
    kinds = {problem["kind"] for problem in lake.drystone("inspect", STREAM, "--json").json["problems"]}
    assert kinds == ({"foreign-mark"} if as_block == "another" else set())
    sweep = lake.drystone("plan", STREAM, "--kind", "sweep", "--json").json
    assert [delete["ulid"] for delete in sweep["deletes"]] == [lake.ulid("a")]
    marks = lake.drystone("plan", STREAM, "--kind", "mark", "--json").json
    assert [unmark["ulid"] for unmark in marks["unmarks"]] == [lake.ulid("c")]


def test_another_tools_parquet_becomes_a_source_of_its_own(lake: Lake, later: Later) -> None:
    """A foreign block in Parquet, in whatever order, is sorted and written anew; once, however often one asks."""
    ulid = ulids.new(lake.clock.now)
    new = rows(7)
    parquet_block(lake.bucket, STREAM, ulid, new.take(list(range(29, -1, -1))))
    said = lake.drystone("adopt", STREAM, "--json")
    (made,) = said.json["blocks"]
    meta = parse(lake.bucket.get(keys.block(STREAM, made, META_FILE)), made)
    assert [parent.ulid for parent in meta.compaction.parents] == [ulid]
    later(HOUR)
    assert read(lake) == values(pa.concat_tables([tables(0, 1, 2, 3), new]))
    deep = lake.drystone("verify", STREAM, "--deep", "--json").json
    assert {finding["kind"] for finding in deep["findings"]} == {"foreign"}
    assert skips(lake.drystone("adopt", STREAM, "--json").json) == {ulid: "it was adopted before"}
    edit(lake, edits.Retire, sources=meta.compaction.sources)
    assert "is retired" in skips(lake.drystone("adopt", STREAM, "--json").json)[ulid]


def test_foreign_blocks_that_overlap_in_part_are_refused(lake: Lake) -> None:
    """Of foreign blocks one that another contains is passed over; two that share sources in part are refused."""
    first, second, third, small = (ulids.new(lake.clock.now + number) for number in range(4))
    parquet_block(lake.bucket, STREAM, first, rows(5), [first, small])
    parquet_block(lake.bucket, STREAM, second, rows(6), [second, third])
    parquet_block(lake.bucket, STREAM, third, rows(7), [third, first[:-1] + "0"])
    parquet_block(lake.bucket, STREAM, small, rows(5).slice(0, 3), [small])
    said = lake.drystone("adopt", STREAM, "--json")
    assert [action["blocks"] for action in said.json["plan"]["adopts"]] == [[first]]
    found = skips(said.json)
    assert found[small] == f"block {first} has all its sources"
    assert "no row says which" in found[second]
    assert "no row says which" in found[third]
    assert said.code == 1


def test_foreign_rows_that_do_not_fit_are_refused(lake: Lake) -> None:
    """A foreign block whose columns cannot be the stream's, or that spans more than a year, stays where it is."""
    ulid = ulids.new(lake.clock.now)
    text = rows(7).set_column(2, "count", pa.array(["many"] * 30))
    parquet_block(lake.bucket, STREAM, ulid, text)
    said = lake.drystone("adopt", STREAM, "--json")
    assert (said.code, said.json["blocks"]) == (1, [])
    assert "column count" in said.json["failures"][0]
