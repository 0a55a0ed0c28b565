"""`drystone inspect`."""

from __future__ import annotations

from lakes import HOUR, STREAM, Lake, Row, rows, without_time

from drystone.block import keys
from drystone.block.guards import Hold, Pin
from drystone.block.marks import NO_COMPACT_MARK, NoCompactMark

Busy = tuple[Lake, list[Row]]


def test_a_stream_in_short(busy: Busy) -> None:
    """Of a stream it shows the rules it lives by, its blocks by state, what overlaps, what waits and its edits."""
    lake, _ = busy
    found = lake.drystone("inspect", STREAM, "--json")
    stream = found.json
    assert stream["record"]["sort_key"] == ["city", "time"]
    assert stream["states"] == {"Fresh": 1, "Healthy": 4, "HealthyOverlapped": 3, "Partial": 1, "Deletable": 1}
    assert stream["stats"]["blocks_visible"] == 4
    assert stream["groups_sharing"] == [lake.blocks["x"].drystone.group.id]
    assert stream["groups_pending"] == [lake.ulid("g")]
    assert [edit["kind"] for edit in stream["edits"]] == ["erase"]
    assert (stream["damage"], stream["problems"]) == ([], [])
    assert found.code == 0


def test_what_keeps_removers_off(lake: Lake) -> None:
    """Holds and pins are shown with who asked for them and when they end; one that cannot be read never does."""
    now = lake.clock.now + 2 * HOUR
    hold = Hold(owner="anna", reason="repair", created=now, expires=now + HOUR)
    pin = Pin(owner="scan", reason="read", created=0, expires=1)
    lake.bucket.create(f"{keys.holds(STREAM)}repair.json", hold.to_json())
    lake.bucket.create(f"{keys.holds(STREAM)}odd.json", b"?")
    lake.bucket.create(f"{keys.pins(STREAM)}old.json", pin.to_json())
    lines = lake.drystone("inspect", STREAM).out.splitlines()
    kept = {line.split()[1]: line for line in lines if line.startswith(("hold", "pin"))}
    assert kept["anna"].endswith("repair")
    assert kept["scan"].split()[2] == "over"
    assert kept["unknown"].split()[2] == "never"
    assert "odd.json cannot be read" in kept["unknown"]


def test_a_stream_for_people(busy: Busy) -> None:
    """The text says the same for people, and ends with damage and problems, or that there are none."""
    lake, _ = busy
    text = lake.drystone("inspect", STREAM).out
    assert "sync_delay 15min" in text
    assert "1 Fresh, 4 Healthy, 3 HealthyOverlapped, 1 Partial, 1 Deletable" in text
    assert "1 groups share sources" in text
    assert text.rstrip().endswith("No damage, and no problems.")


def test_where_a_block_came_from(busy: Busy) -> None:
    """Of a compacted block it shows the parents, whether they are still there, its group and what that covers."""
    lake, _ = busy
    for name in ("chunks/000001.parquet", "index", "meta.json", "deletion-mark.json"):
        lake.bucket.delete([keys.block(STREAM, lake.ulid("a"), name)])
    block = lake.drystone("inspect", STREAM, lake.ulid("f"), "--json").json
    parents = {each["ulid"]: each["there"] for each in block["parents"]}
    assert parents == {lake.ulid("a"): False, lake.ulid("b"): True, lake.ulid("c"): True}
    assert block["group_members"] == [lake.ulid("f"), lake.ulid("f1")]
    assert {each["ulid"] for each in block["covers"]} >= {lake.ulid("b")}
    assert block["covered_by"] == []
    assert block["sources"] == sorted(map(lake.source, "abc"))
    assert (block["state"], block["why"], block["meta"]["compaction"]["level"]) == ("Healthy", "read", 2)
    text = lake.drystone("inspect", STREAM, lake.ulid("f")).out
    assert f"{lake.ulid('a')} (gone)" in text


def test_what_replaced_a_block(busy: Busy) -> None:
    """Of a covered block it shows the blocks that cover it, its mark, and what is to become of it."""
    lake, _ = busy
    block = lake.drystone("inspect", STREAM, lake.ulid("a"), "--json").json
    assert {each["ulid"] for each in block["covered_by"]} == {lake.ulid("f"), lake.ulid("f1")}
    assert (block["state"], block["mark"]["details"]) == ("Deletable", "covered")
    assert {each["name"] for each in block["files"]} >= {"meta.json", "index", "deletion-mark.json"}
    assert all(each["known"] for each in block["files"])
    text = lake.drystone("inspect", STREAM, lake.ulid("a")).out
    assert "deletable, marked for: covered" in text


def test_what_of_a_block_is_read_elsewhere(busy: Busy) -> None:
    """Of a block that overlaps another it names the sources that are read from there."""
    lake, _ = busy
    block = lake.drystone("inspect", STREAM, lake.ulid("x"), "--json").json
    assert block["excluded"] == [lake.source("c")]
    assert lake.source("c") in lake.drystone("inspect", STREAM, lake.ulid("x")).out


def test_blocks_that_are_not_read(busy: Busy) -> None:
    """Of a fresh block it says when it will be ready, of one without meta.json that its upload died."""
    lake, _ = busy
    partial = next(line["ulid"] for line in lake.drystone("ls", STREAM, "--state", "partial", "--json").json["blocks"])
    assert "an upload that died" in lake.drystone("inspect", STREAM, partial).out
    assert "ready in" in lake.drystone("inspect", STREAM, lake.ulid("g")).out


def test_a_block_that_is_kept_from_compaction(busy: Busy) -> None:
    """A no-compact mark is shown, and is a known file of the block."""
    lake, _ = busy
    mark = NoCompactMark(id=lake.ulid("e"), no_compact_time=0, reason="manual")
    lake.bucket.create(keys.block(STREAM, lake.ulid("e"), NO_COMPACT_MARK), mark.to_json())
    text = lake.drystone("inspect", STREAM, lake.ulid("e")).out
    assert "no-compact mark" in text
    assert "no part of it" not in text


def test_many_sources_are_counted(lake: Lake) -> None:
    """For people a long list of sources is cut off and counted; JSON has them all."""
    sources = [lake.source(f"many {number}") for number in range(25)]
    lake.ingest("many", rows(1))
    lake.upload("merged", lake.given["many"], sources=[*sources, lake.source("many")])
    text = lake.drystone("inspect", STREAM, lake.ulid("merged")).out
    assert "and 16 more" in text
    assert len(lake.drystone("inspect", STREAM, lake.ulid("merged"), "--json").json["sources"]) == 26


def test_no_such_block(busy: Busy) -> None:
    """A name that is no block of the stream is refused, with the way to list those that are."""
    found = busy[0].drystone("inspect", STREAM, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert found.code == 2
    assert "has no block 01ARZ3NDEKTSV4RRFFQ69G5FAV. `drystone ls events` lists them." in found.err


def test_how_many_rows_have_no_time(lake: Lake) -> None:
    """A block says it, if there are any."""
    lake.ingest("known", rows(4))
    lake.ingest("unknown", without_time(rows(5), "Oslo"))
    shown = {name: lake.drystone("inspect", STREAM, lake.ulid(name)).out.splitlines() for name in ("known", "unknown")}
    assert [line.split()[-1] for line in shown["unknown"] if line.startswith("without time")] == ["10"]
    assert not [line for line in shown["known"] if line.startswith("without time")]
