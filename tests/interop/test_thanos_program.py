"""The whole `thanos` program accepts a stream of Drystone's, and what it marks is looked at again by Drystone."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import DAY, FIRST_DAY, HOUR, STREAM, Lake, make_lake, rows, values
from runs import Runs
from scenes import edit
from thanos_program import Thanos, get, metric, requests, waited
from tracked import Counting

import drystone
from drystone import ulids
from drystone.block import keys
from drystone.block.edits import Retire
from drystone.block.marks import DELETION_MARK, NO_COMPACT_MARK
from drystone.block.meta import META_FILE
from drystone.bucket import LocalBucket
from drystone.testing.folders import CHUNK_FILE, meta_of
from drystone.testing.streams import ManualClock
from drystone.timeline.blocks import Block
from drystone.tracker import ListingTracker

# The first time, all of Thanos is built.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

IDLE = 1000


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Blocks `a`, `b`, `c` of a day, `f`, two blocks that were compacted from `a` and `b`, `e` of another day."""
    (tmp_path / "lake").mkdir()
    made = make_lake(tmp_path / "lake")
    for number, name in enumerate("abc"):
        made.ingest(name, rows(number))
    made.ingest("e", rows(4, day=1))
    made.merge("f", "a", "b", cut="Lund")
    made.clock.advance(HOUR)
    return made


@pytest.fixture
def thanos(lake: Lake, tmp_path: Path) -> Thanos:
    """Thanos on that stream."""
    work = tmp_path / "work"
    work.mkdir()
    return Thanos(lake.folder / "bucket", STREAM, work)


def _ulids(lake: Lake, *names: str) -> set[str]:
    return {lake.ulid(name) for name in names or lake.blocks}


def _runs(lake: Lake) -> Runs:
    return Runs(lake.bucket, STREAM, lake.config, lake.clock)


def _marked(lake: Lake, mark: str = DELETION_MARK) -> set[str]:
    return {name for name in lake.blocks if lake.bucket.path(keys.block(STREAM, lake.ulid(name), mark)).exists()}


def _read(lake: Lake) -> Any:
    return values(pa.Table.from_batches(list(drystone.scan(lake.bucket, STREAM))))


def _truth() -> Any:
    return values(pa.concat_tables([*(rows(number) for number in range(3)), rows(4, day=1)]))


def _documents(text: str) -> list[dict[str, Any]]:
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


def test_ls(lake: Lake, thanos: Thanos) -> None:
    """`thanos tools bucket ls` lists every block, with the facts that Drystone wrote."""
    out, _ = thanos.bucket("ls", "--output=json")
    listed = {each["ulid"]: each for each in _documents(out)}
    assert listed.keys() == _ulids(lake)
    for name, meta in lake.blocks.items():
        found = listed[lake.ulid(name)]
        assert (found["minTime"], found["maxTime"]) == (meta.min_time, meta.max_time)
        assert tuple(found["compaction"]["sources"]) == meta.compaction.sources
        assert found["stats"]["numSamples"] == meta.stats.num_samples
        assert found["thanos"]["labels"] == {"dataset": "events"}
        assert found["thanos"]["extensions"]["drystone"]["stream"] == STREAM
    marked = next(iter(_ulids(lake, "a")))
    thanos.bucket("mark", f"--id={marked}", "--marker=deletion-mark.json", "--details=by hand")
    out, _ = thanos.bucket("ls", "--exclude-delete")
    assert set(out.split()) == _ulids(lake) - {marked}


def test_inspect(lake: Lake, thanos: Thanos) -> None:
    """`thanos tools bucket inspect` shows a row for each block, with its level, rows and labels."""
    out, _ = thanos.bucket("inspect", "--output=csv")
    shown = {row["ULID"]: row for row in csv.DictReader(io.StringIO(out))}
    assert shown.keys() == _ulids(lake)
    assert shown[lake.ulid("a")]["#SAMPLES"] == "30"
    assert shown[lake.ulid("a")]["COMP-LEVEL"] == "1"
    assert shown[lake.ulid("f")]["COMP-LEVEL"] == "2"
    assert all("dataset=events" in row["LABELS"] for row in shown.values())


def test_verify(lake: Lake, thanos: Thanos) -> None:
    """`thanos tools bucket verify -i overlapped_blocks` ends well, and names blocks that overlap in time alone."""
    _, said = thanos.bucket("verify", "--issues=overlapped_blocks")
    assert "found overlapped blocks" in said
    assert lake.ulid("c") in said
    assert lake.ulid("e") not in said


def test_web(lake: Lake, thanos: Thanos) -> None:
    """`thanos tools bucket web` serves the stream's blocks as JSON, less what it takes for duplicates."""
    with thanos.serving("tools", "bucket", "web") as url:
        waited(lambda: get(f"{url}/api/v1/blocks?view=global")["data"]["blocks"])
        found = get(f"{url}/api/v1/blocks?view=global")["data"]
    assert found["err"] is None
    # It knows no groups: of the two blocks of `f`, which have the same sources, it shows the older alone.
    assert {each["ulid"] for each in found["blocks"]} == _ulids(lake, "c", "e", "f")


def _mark(lake: Lake, thanos: Thanos, *names: str) -> None:
    thanos.bucket("mark", *(f"--id={lake.ulid(name)}" for name in names), "--marker=deletion-mark.json", "--details=me")


def test_its_mark_counts_where_the_block_is_covered(lake: Lake, thanos: Thanos) -> None:
    """Of two blocks that Thanos marks, Drystone deletes the one that is covered, and takes the other's mark away."""
    _mark(lake, thanos, "a", "c")
    runs = _runs(lake)
    assert runs.mark() == _ulids(lake, "b")
    assert _marked(lake) == {"a", "b"}
    assert json.loads(lake.file("a", DELETION_MARK).read_bytes())["details"] == "me"
    # Thanos' mark bears the machine's time, which is an hour ahead of the lake's.
    lake.clock.advance(2 * HOUR)
    assert runs.sweep() == _ulids(lake, "a", "b")
    assert _read(lake) == _truth()


def test_its_mark_counts_where_the_rows_are_retired(lake: Lake, thanos: Thanos) -> None:
    """A block whose sources an edit retired is deleted under the mark that Thanos set."""
    edit(lake, Retire, sources=(lake.source("e"),))
    _mark(lake, thanos, "e", "c")
    runs = _runs(lake)
    runs.mark()
    assert _marked(lake) == {"a", "b", "e"}
    lake.clock.advance(2 * HOUR)
    assert runs.sweep() == _ulids(lake, "a", "b", "e")
    assert _read(lake) == [row for row in _truth() if row[2] < 4000]


def test_a_covered_block_stays_if_its_cover_is_marked(lake: Lake, thanos: Thanos) -> None:
    """If Thanos marks a block and what covers it, all marks go, and the covered block is marked anew a run later."""
    _mark(lake, thanos, "a", "f")
    runs = _runs(lake)
    assert runs.mark() == set()
    assert _marked(lake) == set()
    assert runs.mark() == _ulids(lake, "a", "b")
    lake.clock.advance(2 * HOUR)
    assert runs.sweep() == _ulids(lake, "a", "b")
    assert _read(lake) == _truth()


def test_its_no_compact_mark_holds(lake: Lake, thanos: Thanos) -> None:
    """A block that Thanos marks no-compact is not merged, and a mark that it takes away again no longer counts."""
    lake.ingest("d", rows(5))
    lake.clock.advance(HOUR)
    mark = ("mark", f"--id={lake.ulid('c')}", "--marker=no-compact-mark.json", "--details=by hand")
    thanos.bucket(*mark)
    assert _marked(lake, NO_COMPACT_MARK) == {"c"}
    assert lake.ulid("c") not in _merged(lake)
    thanos.bucket(*mark, "--remove")
    assert lake.ulid("c") in _merged(lake)


def _merged(lake: Lake) -> set[str]:
    runs = _runs(lake)
    before = {ulid for ulid, folder in runs.observe()[0].folders.items() if folder.meta}
    runs.compact()
    fresh = [folder.meta for ulid, folder in runs.observe()[0].folders.items() if ulid not in before]
    return {parent.ulid for meta in fresh if meta is not None for parent in meta.compaction.parents}


def test_its_retention_deletes_nothing(lake: Lake, thanos: Thanos) -> None:
    """Thanos' retention marks all that is old; no edit says so, and Drystone keeps every row."""
    thanos.bucket("retention", "--retention.resolution-raw=1d", "--consistency-delay=0s", "--delete-delay=0s")
    assert _marked(lake) >= {"c", "e", "f"}
    runs = _runs(lake)
    for _ in range(3):
        runs.mark()
        lake.clock.advance(HOUR)
        runs.sweep()
    assert _marked(lake) == set()
    assert _read(lake) == _truth()


def test_its_compactor_does_no_harm_before_its_delay(lake: Lake, thanos: Thanos) -> None:
    """Thanos' compactor marks one of two members of a group, and halts at overlaps; Drystone takes the mark away."""
    with thanos.serving("compact", "--wait", "--consistency-delay=0s", f"--data-dir={thanos.work}") as url:
        waited(lambda: metric(url, "thanos_compact_halted"))
    assert _marked(lake) == {"a", "b", "f1"}
    _runs(lake).mark()
    assert "f1" not in _marked(lake)
    assert _read(lake) == _truth()


def test_requests_of_an_idle_round(tmp_path: Path) -> None:
    """On 1,000 blocks, with nothing to do, Thanos asks 18,000 times; Drystone's second look is one listing of them."""
    bucket = LocalBucket(tmp_path / "bucket", ManualClock(FIRST_DAY))
    for number in range(IDLE):
        _write_block(bucket, number)
    thanos = Thanos(tmp_path / "bucket", STREAM, tmp_path)
    flags = ("--wait", "--consistency-delay=0s", f"--data-dir={tmp_path / 'data'}", "--compact.progress-interval=0s")
    with thanos.serving("compact", *flags) as url:
        waited(lambda: metric(url, "thanos_compact_iterations_total"))
        asked = requests(url)
    # Once, each meta.json is read; in each of four looks, it is asked whether each is there, and for three marks each.
    assert asked["exists"] >= 4 * IDLE
    assert asked["get"] >= 13 * IDLE

    spied = Counting(bucket)
    tracker = ListingTracker(spied, STREAM)
    tracker.observe(FIRST_DAY + HOUR)
    assert len(spied.gets) == IDLE
    spied.gets.clear()
    spied.lists.clear()
    tracker.observe(FIRST_DAY + HOUR)
    assert spied.gets == []
    assert spied.lists.count(keys.blocks(STREAM)) == 1


def _write_block(bucket: LocalBucket, number: int) -> None:
    """Write a block's meta.json, and a file that stands for its rows: twenty days apart, there is nothing to merge."""
    ulid = ulids.derive(FIRST_DAY, str(number))
    start = number * 20 * DAY
    block = Block(ulid, start, start + HOUR, frozenset({ulids.derive(0, str(number))}), FIRST_DAY, ulid, rows=1)
    bucket.create(keys.block(STREAM, ulid, CHUNK_FILE), b"rows")
    bucket.create(keys.block(STREAM, ulid, META_FILE), meta_of(block, 4).to_json())
