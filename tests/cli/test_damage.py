"""What is damaged is reported by name, and harms nothing else.

Source: the design, "A bad block harms nobody else" and "Visibility: damage". The stream: see `make_busy_lake`.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import pytest
from lakes import DAY, FIRST_DAY, STREAM, Lake, Row, values

from drystone import ulids
from drystone.block import keys
from drystone.engine.audit import Entry, append

Busy = tuple[Lake, list[Row]]
SECOND_DAY = (FIRST_DAY + DAY) * 1000


def rows_of(lake: Lake, *options: object) -> list[Row]:
    """Return the rows that a read gives; it must end well."""
    out = lake.folder / "out.parquet"
    found = lake.drystone("read", STREAM, "--format", "parquet", "-o", out, *options)
    assert found.code == 0, found.err
    return values(pq.read_table(out))


def findings(lake: Lake, *options: str) -> list[dict[str, str]]:
    """Return what a verification finds. It must find something, exit with 1, and know what to do about each thing."""
    found = lake.drystone("verify", STREAM, "--json", *options)
    assert found.code == 1
    assert all(each["what"] and each["to_do"] for each in found.json["findings"])
    listed: list[dict[str, str]] = found.json["findings"]
    return listed


def kinds(found: list[dict[str, str]]) -> set[tuple[str, str, str]]:
    """Return severity, kind and block of each finding."""
    return {(each["severity"], each["kind"], each["block"]) for each in found}


def copy_block(lake: Lake, name: str) -> str:
    """Copy a block's folder under a new, old enough ULID, with the times of its files; return the ULID."""
    ulid = ulids.new(lake.clock.now)
    folder = lake.file(name, "meta.json").parent
    shutil.copytree(folder, folder.parent / ulid)
    rewrite_meta(lake, ulid, lambda meta: meta.update(ulid=ulid))
    return ulid


def rewrite_meta(lake: Lake, ulid: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a block's meta.json behind its back."""
    key = keys.block(STREAM, ulid, "meta.json")
    meta = json.loads(lake.bucket.get(key))
    change(meta)
    lake.bucket.put(key, json.dumps(meta).encode())


def cut_off(lake: Lake, ulid: str) -> None:
    """Cut a block's meta.json off in the middle."""
    key = keys.block(STREAM, ulid, "meta.json")
    lake.bucket.put(key, lake.bucket.get(key)[:200])


def test_nothing_is_wrong(busy: Busy) -> None:
    """In the middle of a normal life, crashes and overlaps included, nothing is found: exit code 0."""
    lake, truth = busy
    for options in ((), ("--deep",)):
        found = lake.drystone("verify", STREAM, "--json", *options)
        assert (found.code, found.json["findings"]) == (0, [])
    assert (found.json["blocks"], found.json["rows"], found.json["deep"]) == (9, 330, True)
    assert rows_of(lake) == truth


def test_no_parquet_among_the_chunks(busy: Busy) -> None:
    """A file among the chunks that is no part of the block is reported with its name; reads do not touch it."""
    lake, truth = busy
    lake.bucket.put(keys.block(STREAM, lake.ulid("e"), "chunks/notes.txt"), b"not Parquet")
    stray = next(each for each in findings(lake, "--deep"))
    assert (stray["severity"], stray["kind"]) == ("problem", "stray")
    assert (stray["block"], stray["file"]) == (lake.ulid("e"), "chunks/notes.txt")
    assert "chunks/notes.txt is no part of the block" in lake.drystone("inspect", STREAM).out
    assert "chunks/notes.txt" in lake.drystone("inspect", STREAM, lake.ulid("e")).out
    assert rows_of(lake) == truth


def test_garbage_in_the_place_of_a_chunk(busy: Busy) -> None:
    """A chunk that is no Parquet any more is found by its hash; a read names it, and reads the rest when told to."""
    lake, truth = busy
    path = lake.file("e", "chunks/000001.parquet")
    path.write_bytes(b"#" * path.stat().st_size)
    assert lake.drystone("verify", STREAM).code == 0
    assert kinds(findings(lake, "--deep")) == {("damage", "hash", lake.ulid("e"))}
    found = lake.drystone("read", STREAM, "--count")
    assert (found.code, len(found.err.splitlines())) == (1, 1)
    assert f"block {lake.ulid('e')}: chunks/000001.parquet is damaged, or no Parquet file" in found.err
    rest = [row for row in truth if row[0] < SECOND_DAY]
    assert rows_of(lake, "--end", "2013-01-02") == rest
    assert rows_of(lake, "--allow-incomplete") == rest
    warned = lake.drystone("read", STREAM, "--count", "--allow-incomplete")
    assert warned.err.startswith("drystone: warning: stream events: rows are missing: block")
    assert len(warned.err.splitlines()) == 1


def test_a_page_that_does_not_decompress(busy: Busy) -> None:
    """Damage in the middle of a chunk, footer and size intact, is told from a failing store: exit code 1, by name."""
    lake, truth = busy
    path = lake.file("e", "chunks/000001.parquet")
    raw = bytearray(path.read_bytes())
    raw[4:400] = bytes(396)
    path.write_bytes(raw)
    found = lake.drystone("read", STREAM, "--count")
    assert found.code == 1
    assert f"block {lake.ulid('e')}: chunks/000001.parquet" in found.err
    assert rows_of(lake, "--allow-incomplete", "--end", "2013-01-02") == [row for row in truth if row[0] < SECOND_DAY]


def test_a_cut_off_meta_of_a_block_that_was_replaced(busy: Busy) -> None:
    """Where all rows of an unreadable block are read elsewhere, it is a problem with a name, and reads stay exact."""
    lake, truth = busy
    cut_off(lake, lake.ulid("b"))
    assert kinds(findings(lake)) == {("problem", "unreadable-meta", lake.ulid("b"))}
    stream = lake.drystone("inspect", STREAM, "--json").json
    assert stream["damage"] == []
    assert [(each["kind"], each["name"]) for each in stream["problems"]] == [("malformed", lake.ulid("b"))]
    block = lake.drystone("inspect", STREAM, lake.ulid("b"), "--json").json
    assert (block["state"], block["meta"]) == ("Malformed", None)
    assert block["why"].startswith(f"block {lake.ulid('b')}: meta.json cannot be used")
    assert rows_of(lake) == truth


def test_a_cut_off_meta_of_the_only_copy(busy: Busy) -> None:
    """Where its rows are nowhere else, it is damage: reads name it rather than return less, unless told to read on."""
    lake, truth = busy
    cut_off(lake, lake.ulid("e"))
    assert kinds(findings(lake)) == {("damage", "unreadable-meta", lake.ulid("e"))}
    assert [each["name"] for each in lake.drystone("inspect", STREAM, "--json").json["damage"]] == [lake.ulid("e")]
    found = lake.drystone("read", STREAM, "--count")
    assert found.code == 1
    assert f"rows are missing: block {lake.ulid('e')}: meta.json cannot be used" in found.err
    assert rows_of(lake, "--allow-incomplete") == [row for row in truth if row[0] < SECOND_DAY]


@pytest.mark.parametrize(("logged", "code"), [(False, 0), (True, 1)])
def test_a_cut_off_meta_without_chunks(busy: Busy, logged: bool, code: int) -> None:  # noqa: FBT001 - a parameter
    """A folder with nothing but a broken meta.json is damage only if the audit log knows the block as once whole."""
    lake, truth = busy
    ulid = ulids.new(lake.clock.now)
    lake.bucket.put(keys.block(STREAM, ulid, "meta.json"), b'{"version": 1, "ul')
    if logged:
        append(lake.bucket, STREAM, [Entry("upload", ulid, "merge x", "run", lake.clock.now)], lake.clock.now)
    assert kinds(findings(lake)) == {("damage" if logged else "problem", "unreadable-meta", ulid)}
    assert lake.drystone("read", STREAM, "--count").code == code
    assert rows_of(lake, "--allow-incomplete") == truth


def test_an_empty_source_list(busy: Busy) -> None:
    """A block with an empty source list is reported by name, covers nothing and is not read."""
    lake, truth = busy
    ulid = copy_block(lake, "e")
    rewrite_meta(lake, ulid, lambda meta: meta["compaction"].update(sources=[]))
    (found,) = findings(lake)
    assert (found["severity"], found["block"]) == ("problem", ulid)
    assert "has an empty source list" in found["what"]
    assert f"block {ulid}: meta.json has an empty source list" in lake.drystone("inspect", STREAM).out
    assert rows_of(lake) == truth


def test_a_format_of_the_future(busy: Busy) -> None:
    """A block of a newer format is one unreadable block with a clear reason."""
    lake, truth = busy
    ulid = copy_block(lake, "e")
    rewrite_meta(lake, ulid, lambda meta: meta["thanos"]["extensions"]["drystone"].update(format_version=2))
    (found,) = findings(lake)
    assert found["block"] == ulid
    assert "A newer Drystone wrote it: upgrade this one." in found["what"]
    assert rows_of(lake) == truth


def test_a_lower_case_folder(busy: Busy) -> None:
    """A folder named like a ULID in lower case is no block: it is reported by name and left alone."""
    lake, truth = busy
    folder = lake.file("e", "meta.json").parent
    name = ulids.new(lake.clock.now).lower()
    shutil.copytree(folder, folder.parent / name)
    (found,) = findings(lake)
    assert (found["severity"], found["kind"], found["file"]) == ("problem", "stray", f"{STREAM}/{name}")
    assert f"{STREAM}/{name} belongs to no block" in lake.drystone("inspect", STREAM).out
    asked = lake.drystone("inspect", STREAM, name)
    assert asked.code == 2
    assert f"{STREAM}/{name} is no block: its name is no ULID in upper case." in asked.err
    assert rows_of(lake) == truth


def test_a_mark_that_names_another_block(busy: Busy) -> None:
    """A mark counts for the folder that it lies in; that it names another is reported, and nothing is deleted."""
    lake, truth = busy
    lake.mark("e", as_block=lake.ulid("f"))
    (found,) = findings(lake)
    assert (found["severity"], found["kind"], found["block"]) == ("problem", "foreign-mark", lake.ulid("e"))
    assert f"its deletion mark names {lake.ulid('f')}" in lake.drystone("inspect", STREAM).out
    assert lake.drystone("inspect", STREAM, lake.ulid("f"), "--json").json["state"] == "Healthy"
    assert lake.drystone("inspect", STREAM, lake.ulid("e"), "--json").json["state"] == "Deletable"
    deletes = lake.drystone("plan", STREAM, "--kind", "sweep", "--json").json["deletes"]
    assert {each["ulid"] for each in deletes}.isdisjoint({lake.ulid("e"), lake.ulid("f")})
    assert rows_of(lake) == truth


def test_a_guard_that_cannot_be_read(busy: Busy) -> None:
    """An object of Drystone's own that cannot be read is reported by its key, and reads go on."""
    lake, truth = busy
    key = f"{keys.pins(STREAM)}broken.json"
    lake.bucket.put(key, b"{")
    (found,) = findings(lake)
    assert (found["severity"], found["kind"], found["file"]) == ("problem", "unreadable", key)
    assert f"{key} cannot be read" in lake.drystone("inspect", STREAM).out
    assert rows_of(lake) == truth


def test_a_mark_that_cannot_be_read(busy: Busy) -> None:
    """A mark that cannot be read keeps its block from being deleted, and is reported by name."""
    lake, truth = busy
    lake.bucket.put(keys.block(STREAM, lake.ulid("e"), "deletion-mark.json"), b"{")
    assert kinds(findings(lake)) == {("problem", "unreadable-mark", lake.ulid("e"))}
    assert rows_of(lake) == truth


def test_a_group_that_lacks_a_member_while_its_inputs_are_there(busy: Busy) -> None:
    """A group without one of its members is reported by name; what it replaced is read instead."""
    lake, truth = busy
    group = lake.blocks["f"].drystone.group.id
    shutil.rmtree(lake.file("f1", "meta.json").parent)
    assert kinds(findings(lake)) == {("problem", "incomplete-group", group)}
    assert group in lake.drystone("inspect", STREAM).out
    assert rows_of(lake) == truth


def test_a_group_that_lacks_a_member_for_good(busy: Busy) -> None:
    """Without its inputs that is damage: a read names the group and what is left of it, and other days are read."""
    lake, truth = busy
    group = lake.blocks["f"].drystone.group.id
    for name in ("f1", "a", "b"):
        shutil.rmtree(lake.file(name, "meta.json").parent)
    assert ("damage", "missing-rows", group) in kinds(findings(lake))
    found = lake.drystone("read", STREAM, "--count")
    assert found.code == 1
    assert f"group {group}: member 1 of 2 cannot be read (blocks found: {lake.ulid('f')})" in found.err
    assert rows_of(lake, "--start", "2013-01-02") == [row for row in truth if row[0] >= SECOND_DAY]
    rest = rows_of(lake, "--allow-incomplete")
    own = {*values(lake.given["c"]), *values(lake.given["d"]), *values(lake.given["e"])}
    assert rest == [row for row in truth if row in own]


def test_members_that_disagree(busy: Busy) -> None:
    """Blocks of one group that contradict each other are not read; what they replaced is, and the group is named."""
    lake, truth = busy
    group = lake.blocks["f"].drystone.group.id
    rewrite_meta(lake, lake.ulid("f1"), lambda meta: meta["compaction"]["sources"].pop())
    assert kinds(findings(lake)) == {("problem", "disagreeing-group", group)}
    assert f"group {group}: its blocks disagree about sources" in lake.drystone("inspect", STREAM).out
    assert rows_of(lake) == truth


def test_many_things_at_once(busy: Busy) -> None:
    """Every one of several kinds of damage is reported, none hides another, and reads are exact."""
    lake, truth = busy
    cut_off(lake, lake.ulid("b"))
    lake.mark("e", as_block=lake.ulid("f"))
    copied = copy_block(lake, "d")
    rewrite_meta(lake, copied, lambda meta: meta["compaction"].update(sources=[]))
    lake.bucket.put(keys.block(STREAM, lake.ulid("x"), "chunks/notes.txt"), b"not Parquet")
    lake.bucket.put(f"{STREAM}/{lake.ulid('a').lower()}/meta.json", b"{}")
    blocks = {(each["kind"], each["block"] or each["file"]) for each in findings(lake)}
    assert blocks == {
        ("unreadable-meta", lake.ulid("b")),
        ("foreign-mark", lake.ulid("e")),
        ("unreadable-meta", copied),
        ("stray", lake.ulid("x")),
        ("stray", f"{STREAM}/{lake.ulid('a').lower()}"),
    }
    assert rows_of(lake) == truth


def test_one_block_alone(busy: Busy) -> None:
    """`verify STREAM ULID` checks that block and reports nothing of the others."""
    lake, _ = busy
    cut_off(lake, lake.ulid("b"))
    assert lake.drystone("verify", STREAM, lake.ulid("e"), "--deep").code == 0
    assert kinds(findings(lake, lake.ulid("b"))) == {("damage", "unreadable-meta", lake.ulid("b"))}


def test_findings_for_people(busy: Busy) -> None:
    """For people each finding is one line that names the block, the file, what is wrong and what to do."""
    lake, _ = busy
    lake.file("e", "chunks/000001.parquet").unlink()
    text = lake.drystone("verify", STREAM).out
    line = next(line for line in text.splitlines() if "chunks/000001.parquet is missing" in line)
    assert line.startswith(f"damage    {lake.ulid('e')}")
    assert "Restore the object" in line
    assert text.splitlines()[-1].endswith("2 findings.")
