"""`drystone repair` on a stream of real blocks: what goes, what stays, and what a reader sees before and after."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from lakes import HOUR, SCHEMA, STREAM, Lake, rows, values
from scenes import edit, four, tables

from drystone import clock, ulids
from drystone.block import edits, keys
from drystone.block.guards import Hold, Pin
from drystone.block.marks import NO_COMPACT_MARK, NoCompactMark
from drystone.block.meta import META_FILE
from drystone.engine import acting, audit
from drystone.engine.audit import Entry
from drystone.reader import scan
from drystone.rows.arrow_schema import SOURCE_COLUMN

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
    return four(tmp_path)


def read(lake: Lake) -> list:
    """What a reader sees now."""
    return values(pa.Table.from_batches(scan(lake.bucket, STREAM), SCHEMA))


def log(lake: Lake, what: str) -> list[Entry]:
    """The actions in the audit log of one kind of action."""
    return [entry for entry in audit.actions(lake.bucket, STREAM) if entry.what == what]


def there(lake: Lake, name: str) -> bool:
    """Whether anything is left of a block."""
    return any(lake.bucket.list(keys.block(STREAM, lake.ulid(name))))


def logged(lake: Lake, name: str) -> None:
    """Log a block as the job that uploaded it would have."""
    entry = Entry("upload", lake.ulid(name), f"source {lake.source(name)}", "ingest", lake.clock.now)
    audit.append(lake.bucket, STREAM, [entry], lake.clock.now)


def lose(lake: Lake, name: str, file: str = META_FILE) -> None:
    """Lose a file of a block, two hours ago."""
    lake.file(name, file).unlink()


def test_what_a_died_upload_left_is_removed_and_logged(lake: Lake) -> None:
    """`partial` removes folders without meta.json that nobody can be writing to, and says so in the audit log."""
    lose(lake, "a")
    said = lake.drystone("repair", "partial", STREAM, "--dry-run")
    assert said.code == 0
    assert f"delete  {lake.ulid('a')}" in said.out
    assert there(lake, "a")
    assert lake.drystone("repair", "partial", STREAM).code == 0
    assert not there(lake, "a")
    assert [entry.block for entry in log(lake, "delete")] == [lake.ulid("a")]
    again = lake.drystone("repair", "partial", STREAM)
    assert (again.code, "nothing to do" in again.out) == (0, True)


def test_an_upload_that_may_still_run_is_left_alone(lake: Lake) -> None:
    """A Partial folder that is younger than sync_delay + delete_delay stays, even where a person names it."""
    lake.clock.advance(2 * HOUR - 20 * 60_000)
    ulid = ulids.new(lake.clock.now)
    lake.bucket.create(keys.block(STREAM, ulid, "chunks/000001.parquet"), b"half")
    said = lake.drystone("repair", "partial", STREAM, ulid, "--reason", "in the way")
    assert "may still run" in said.out
    assert any(lake.bucket.list(keys.block(STREAM, ulid)))


def test_what_was_whole_once_goes_only_by_name_and_reason(lake: Lake) -> None:
    """A block that lost its meta.json is damage: `partial` leaves it, until a person names it and says why."""
    logged(lake, "a")
    lose(lake, "a")
    for arguments in ([], [lake.ulid("a")], ["--reason", "all of them"]):
        said = lake.drystone("repair", "partial", STREAM, *arguments)
        assert (said.code, "whole once" in said.out) == (1, True)
        assert there(lake, "a")
    assert lake.drystone("repair", "partial", STREAM, lake.ulid("a"), "--reason", "no backup").code == 0
    assert not there(lake, "a")
    assert log(lake, "delete")[0].why == "given up: no backup"
    assert "is in no block any more" in lake.drystone("verify", STREAM).out
    edit(lake, edits.Retire, sources=(lake.source("a"),))
    assert lake.drystone("verify", STREAM).code == 0


@pytest.mark.parametrize("guard", ["hold", "pin"])
def test_guards_keep_what_is_broken(lake: Lake, guard: str) -> None:
    """A hold or a pin keeps a block, however broken."""
    lose(lake, "a")
    now, later = clock.system(), clock.system() + HOUR
    kind, prefix = (Hold, keys.holds(STREAM)) if guard == "hold" else (Pin, keys.pins(STREAM))
    note = kind(owner="ann", reason="looking", created=now, expires=later)
    lake.bucket.create(f"{prefix}x.json", note.to_json())
    said = lake.drystone("repair", "partial", STREAM)
    assert "nothing to do" in said.out
    assert there(lake, "a")


def test_a_malformed_block_whose_rows_are_elsewhere_is_removed(lake: Lake) -> None:
    """`malformed` removes a block whose sources a ready and unmarked group holds; others need a person."""
    lake.merge("f", "a", "b")
    lose(lake, "a", "index")
    lake.file("b", META_FILE).write_bytes(b"{")
    lose(lake, "c", "index")
    for name in "ab":
        touch(lake, name)
    said = lake.drystone("repair", "malformed", STREAM)
    assert said.code == 1
    assert f"its source {lake.source('c')} is read from nowhere else" in said.out
    assert (there(lake, "a"), there(lake, "b"), there(lake, "c")) == (False, False, True)
    edit(lake, edits.Retire, sources=(lake.source("c"),))
    assert lake.drystone("repair", "malformed", STREAM).code == 0
    assert not there(lake, "c")
    assert read(lake) == values(tables(0, 1, 3))


def touch(lake: Lake, name: str) -> None:
    """Make a block's files as old as they were before they were changed."""
    for path in lake.file(name, META_FILE).parent.rglob("*"):
        os.utime(path, (lake.clock.now / 1000, lake.clock.now / 1000))


def test_a_marked_cover_is_none(lake: Lake) -> None:
    """A malformed block stays while what holds its rows is marked for deletion itself."""
    lake.merge("f", "a", "b")
    lake.mark("f")
    lose(lake, "a", "index")
    assert lake.drystone("repair", "malformed", STREAM).code == 1
    assert there(lake, "a")


def test_a_block_of_unknown_rows_goes_only_by_name_and_reason(lake: Lake) -> None:
    """Without a usable meta.json or chunk nobody knows what is lost, so a person has to answer for it."""
    lake.file("a", META_FILE).write_bytes(b"{")
    lose(lake, "a", "chunks/000001.parquet")
    touch(lake, "a")
    assert lake.drystone("repair", "malformed", STREAM).code == 1
    assert there(lake, "a")
    assert lake.drystone("repair", "malformed", STREAM, lake.ulid("a"), "--reason", "gone").code == 0
    assert not there(lake, "a")


def test_what_was_restored_meanwhile_is_not_removed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between plan and act somebody may put the lost file back: then the folder is another one, and stays."""
    lake.merge("f", "a")
    index = lake.file("a", "index").read_bytes()
    lose(lake, "a", "index")
    act = acting.act

    def restored(*arguments: object) -> object:
        lake.file("a", "index").write_bytes(index)
        return act(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("drystone.engine.repair.act", restored)
    said = lake.drystone("repair", "malformed", STREAM)
    assert "it has changed since it was planned" in said.out
    assert there(lake, "a")


def test_a_rewrite_takes_the_place_of_its_original(lake: Lake, later: Later) -> None:
    """A rewritten group has the same rows and the next rewrite number, and covers the original once it is ready."""
    lake.merge("f", "a", "b", cut="Lund")
    before = read(lake)
    said = lake.drystone("repair", "rewrite", STREAM, lake.ulid("f"), "--json")
    assert said.code == 0
    (new,) = said.json["blocks"]
    assert read(lake) == before
    later(HOUR)
    found = lake.drystone("inspect", STREAM, new, "--json").json
    assert found["meta"]["thanos"]["source"] == "drystone.repair.rewrite"
    assert found["meta"]["thanos"]["extensions"]["drystone"]["rewrite"] == 1
    listed = {b["ulid"]: b["state"] for b in lake.drystone("ls", STREAM, "--json").json["blocks"]}
    assert listed[lake.ulid("f")] == listed[lake.ulid("f1")] == "HealthyOverlapped"
    assert (listed[new], read(lake)) == ("Healthy", before)
    again = lake.drystone("repair", "rewrite", STREAM, lake.ulid("f"))
    assert "not read, so there is nothing to rewrite" in again.out
    assert lake.drystone("verify", STREAM, "--deep").code == 0


def test_a_rewrite_takes_what_planners_leave(lake: Lake, later: Later) -> None:
    """A block that is marked no-compact is rewritten all the same; one that is held is not."""
    note = NoCompactMark(id=lake.ulid("a"), no_compact_time=1, reason="manual")
    lake.bucket.create(keys.block(STREAM, lake.ulid("a"), NO_COMPACT_MARK), note.to_json())
    hold = Hold(owner="ann", created=0, expires=clock.system() + HOUR, blocks=(lake.ulid("b"),))
    lake.bucket.create(f"{keys.holds(STREAM)}b.json", hold.to_json())
    said = lake.drystone("repair", "rewrite", STREAM, lake.ulid("a"), lake.ulid("b"), "--json")
    assert len(said.json["blocks"]) == 1
    assert [skip["name"] for skip in said.json["plan"]["skipped"]] == [lake.ulid("b")]


def oslo(column: str = "city") -> str:
    """The predicate for the rows of Oslo."""
    return json.dumps({"column": column, "op": "=", "value": "Oslo"})


def test_dropped_rows_are_gone_once_their_replacement_is_ready(lake: Lake, later: Later) -> None:
    """`drop-rows` replaces every source that has such rows; until then nothing changes, and later rows stay."""
    lake.merge("f", "a", "b", cut="Lund")
    before = read(lake)
    dry = lake.drystone("repair", "drop-rows", STREAM, "--predicate", oslo(), "--dry-run", "--json")
    gone = sum(swap["rows"] for action in dry.json["plan"]["replaces"] for swap in action["swaps"])
    assert gone == sum(row[1] == "Oslo" for row in before)
    said = lake.drystone("repair", "drop-rows", STREAM, "--predicate", oslo(), "--reason", "a broken sensor", "--json")
    assert len(said.json["blocks"]) == 4
    assert read(lake) == before
    lake.clock.advance(2 * HOUR)
    lake.ingest("e", rows(4))
    later(HOUR)
    kept = [row for row in before if row[1] != "Oslo"]
    assert read(lake) == sorted(kept + values(rows(4)), key=lambda row: row[2])
    assert lake.drystone("verify", STREAM, "--deep").code == 0
    replaced = {entry.why.split(":")[0] for entry in log(lake, "replace")}
    assert replaced == {f"source {lake.source(name)}" for name in "abcd"}
    again = lake.drystone("repair", "drop-rows", STREAM, "--predicate", oslo(), lake.ulid("c"))
    assert (again.code, "nothing to do" in again.out) == (0, True)


def test_dropping_keeps_what_was_erased_erased(lake: Lake, later: Later) -> None:
    """What an edit has taken away is neither counted nor brought back by a replacement."""
    lake.erase("Lund")
    said = lake.drystone("repair", "drop-rows", STREAM, lake.ulid("a"), "--where", "city=Oslo", "--json")
    assert len(said.json["blocks"]) == 1
    later(HOUR)
    wanted = [row for row in values(tables(0, 1, 2, 3)) if row[1] != "Lund" and (row[1] != "Oslo" or row[2] >= 1000)]
    assert read(lake) == wanted
    lund = lake.drystone("repair", "drop-rows", STREAM, "--predicate", oslo().replace("Oslo", "Lund"))
    assert "nothing to do" in lund.out


def test_all_rows_of_a_source_may_go(lake: Lake, later: Later) -> None:
    """A source without a row left is replaced by an empty block, and stays gone after a late copy of it arrives."""
    every = json.dumps({"column": "count", "op": "<", "value": 1000})
    assert lake.drystone("repair", "drop-rows", STREAM, "--predicate", every).code == 0
    lake.clock.advance(2 * HOUR)
    lake.ingest("zombie's a", rows(0), source="a")
    later(HOUR)
    assert read(lake) == values(tables(1, 2, 3))
    assert lake.drystone("verify", STREAM, "--deep").code == 0


def test_a_predicate_that_fits_no_column_is_refused(lake: Lake) -> None:
    """A column that no block has, or a value of another type, is an error and not an empty result."""
    wrong = lake.drystone("repair", "drop-rows", STREAM, "--predicate", oslo("town"))
    assert (wrong.code, "no column town" in wrong.err) == (2, True)
    assert lake.drystone("repair", "drop-rows", STREAM, "--predicate", oslo("count")).code == 2
    assert lake.drystone("repair", "drop-rows", STREAM, "--where", "Oslo").code == 2


def test_a_file_takes_the_place_of_a_source_at_once(lake: Lake) -> None:
    """`reupload` needs no sync_delay: the new rows are read at once, in whatever time chunks they lie."""
    file = lake.folder / "corrected.csv"
    new = pa.concat_tables([rows(7), rows(8, day=3)])
    pa.csv.write_csv(new, file)
    said = lake.drystone("repair", "reupload", STREAM, "--source", lake.source("a"), "--file", file, "--json")
    assert (said.code, len(said.json["blocks"])) == (0, 2)
    assert read(lake) == values(pa.concat_tables([tables(1, 2, 3), new]))
    assert lake.drystone("verify", STREAM, "--deep").code == 0
    assert lake.drystone("repair", "reupload", STREAM, "--source", lake.source("b"), "--file", "nowhere.csv").code == 2


def test_of_two_replacements_the_newer_counts(lake: Lake, later: Later) -> None:
    """A source that was replaced can be replaced again, by its own name or by that of its replacement."""
    for number in (7, 8):
        file = lake.folder / f"{number}.parquet"
        pq.write_table(rows(number), file)
        assert lake.drystone("repair", "reupload", STREAM, "--source", lake.source("a"), "--file", file).code == 0
        later(1000)
    assert read(lake) == values(pa.concat_tables([tables(1, 2, 3), rows(8)]))


def test_rows_of_lost_blocks_can_be_uploaded_again(lake: Lake) -> None:
    """A block that lost its meta.json: its own chunk is the file that takes the place of its source."""
    logged(lake, "a")
    chunk = lake.folder / "saved.parquet"
    chunk.write_bytes(lake.file("a", "chunks/000001.parquet").read_bytes())
    lose(lake, "a")
    assert lake.drystone("repair", "reupload", STREAM, "--source", lake.source("a"), "--file", chunk).code == 0
    assert read(lake) == values(tables(0, 1, 2, 3))
    assert SOURCE_COLUMN in pq.read_schema(chunk).names
    assert lake.drystone("repair", "partial", STREAM, lake.ulid("a"), "--reason", "uploaded again").code == 0
    assert lake.drystone("verify", STREAM).code == 0


def test_a_late_copy_of_what_was_replaced_twice_stays_away(lake: Lake, later: Later) -> None:
    """The replacement of a replacement tells of both: when the first one's block is gone, the root stays replaced."""
    file = lake.folder / "7.parquet"
    pq.write_table(rows(7), file)
    said = lake.drystone("repair", "reupload", STREAM, "--source", lake.source("a"), "--file", file, "--json")
    (first,) = said.json["blocks"]
    later(1000)
    where = ("--where", "city=Oslo", first)
    assert lake.drystone("repair", "drop-rows", STREAM, *where).code == 0
    later(HOUR)
    for ulid in (first, lake.ulid("a")):
        shutil.rmtree(lake.file("b", META_FILE).parent.with_name(ulid))
    lake.ingest("zombie's a", rows(0), source="a")
    kept = [row for row in values(rows(7)) if row[1] != "Oslo"]
    assert sorted(read(lake)) == sorted(values(tables(1, 2, 3)) + kept)
