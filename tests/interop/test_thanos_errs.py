"""What the real Thanos gets wrong, each shown with its own code, and what Drystone does with the same blocks.

Source: the design, "What the real Thanos gets wrong, and Drystone must not". How many requests an idle round takes is
shown with the whole program, in test_thanos_program.py.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from lakes import HOUR, STREAM, Lake, Row, make_lake, rows, values
from runs import Runs
from thanos_oracle import Round, one_round

import drystone
from drystone.block import keys
from drystone.block.marks import DELETION_MARK, DeletionMark
from drystone.block.meta import META_FILE
from drystone.errors import DamagedStreamError
from drystone.timeline.timeline import Timeline

# The first time, the program around Thanos' packages is built.
pytestmark = pytest.mark.timeout(1800)

TWO_DAYS = 2 * 24 * 3600
"""Thanos' delete delay, in seconds."""


class Case:
    """A lake of real blocks, and a copy of it for Thanos. `truth`: the rows that must stay readable."""

    def __init__(self, folder: Path) -> None:
        """Make blocks `a` and `b` of one day, `f`, which was compacted from both, and `e` of another day."""
        (folder / "lake").mkdir()
        self.lake: Lake = make_lake(folder / "lake")
        self.lake.ingest("a", rows(1))
        self.lake.ingest("b", rows(2))
        self.lake.ingest("e", rows(3, day=1))
        self.lake.merge("f", "a", "b")
        self.truth: list[Row] = values(pa.concat_tables([rows(1), rows(2), rows(3, day=1)]))
        self._folder = folder

    def change_meta(self, name: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Change a block's meta.json behind everybody's back: its time stays."""
        path = self.lake.file(name, META_FILE)
        document, facts = json.loads(path.read_bytes()), path.stat()
        change(document)
        path.write_text(json.dumps(document))
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))

    def put_mark(self, name: str, **changes: Any) -> None:
        """Mark a block for deletion, as of now, as some tool would."""
        note = DeletionMark(id=self.lake.ulid(name), deletion_time=self.lake.clock.now // 1000)
        raw = note.model_copy(update=changes).to_json()
        self.lake.bucket.put(keys.block(STREAM, self.lake.ulid(name), DELETION_MARK), raw)

    def thanos(self, *, delete_delay: int = TWO_DAYS, vertical: bool = False) -> tuple[Round, set[str], set[str]]:
        """Let Thanos do a round on its copy; return what it says, and which blocks are there and which are marked.

        With a delay of 0 it deletes what is marked.
        """
        copy = self._folder / "thanos"
        if not copy.exists():
            self.lake.copy(copy)
        blocks = copy / "bucket" / STREAM
        said = one_round(blocks, delete_delay=delete_delay, vertical=vertical)
        names = {self.lake.ulid(name): name for name in self.lake.blocks}
        there = {name for ulid, name in names.items() if (blocks / ulid / META_FILE).exists()}
        return said, there, {name for ulid, name in names.items() if (blocks / ulid / DELETION_MARK).exists()}

    def runs(self) -> Runs:
        """Return Drystone's runs on the lake, at the lake's time."""
        return Runs(self.lake.bucket, STREAM, self.lake.config, self.lake.clock)

    def live(self, rounds: int = 4) -> tuple[set[str], set[str]]:
        """Let Drystone mark and sweep, an hour apart; return what was ever marked and ever deleted, by name."""
        names = {self.lake.ulid(name): name for name in self.lake.blocks}
        marked, deleted = set[str](), set[str]()
        for _ in range(rounds):
            marked |= {names[ulid] for ulid in self.runs().mark()}
            self.lake.clock.advance(HOUR)
            deleted |= {names[ulid] for ulid in self.runs().sweep()}
        return marked, deleted

    def _is_marked(self, ulid: str) -> bool:
        return self.lake.bucket.path(keys.block(STREAM, ulid, DELETION_MARK)).exists()

    def marks(self) -> set[str]:
        """Return the names of the blocks that are marked."""
        return {name for name in self.lake.blocks if self._is_marked(self.lake.ulid(name))}

    def timeline(self) -> Timeline:
        """Return what Drystone makes of it."""
        return self.runs().observe()[1]

    def read(self) -> list[Row]:
        """Return the rows that a reader sees."""
        return values(pa.Table.from_batches(list(drystone.scan(self.lake.bucket, STREAM))))


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A lake of four blocks, one of which covers two others, two hours old."""
    made = Case(tmp_path)
    made.lake.clock.advance(HOUR)
    return made


def kinds(case: Case) -> set[str]:
    """Return the kinds of problems that Drystone reports."""
    return {problem.kind for problem in case.timeline().problems}


def test_what_both_do(case: Case) -> None:
    """Where nothing is wrong, both mark the covered blocks, and delete these alone."""
    said, there, marked = case.thanos()
    assert (said.error, there, marked) == ("", {"a", "b", "e", "f"}, {"a", "b"})
    said, there, _ = case.thanos(delete_delay=0)
    assert (said.error, there) == ("", {"e", "f"})
    assert case.live() == ({"a", "b"}, {"a", "b"})
    assert case.read() == case.truth


def test_the_replacement_is_marked(case: Case) -> None:
    """Thanos lets a marked replacement cover its parents, and all are gone; Drystone takes the mark away first."""
    case.put_mark("f")
    assert case.thanos()[2] == {"a", "b", "f"}
    assert case.thanos(delete_delay=0)[1] == {"e"}

    assert case.runs().mark() == set()
    assert case.marks() == set()
    assert case.live() == ({"a", "b"}, {"a", "b"})
    assert case.read() == case.truth


def test_a_mark_that_names_another_block(case: Case) -> None:
    """Thanos deletes the block that a mark names, wherever the mark lies; for Drystone the folder's name decides."""
    case.put_mark("a", id=case.lake.ulid("e"))
    _, there, _ = case.thanos(delete_delay=0)
    assert "e" not in there
    assert "a" in there

    assert "foreign-mark" in kinds(case)
    assert case.live() == ({"b"}, {"a", "b"})
    assert case.read() == case.truth


def test_an_empty_source_list(case: Case) -> None:
    """Thanos takes a block without sources for a duplicate of its neighbour; Drystone keeps it, for a person."""
    case.change_meta("e", lambda meta: meta["compaction"].update(sources=[]))
    assert "e" in case.thanos()[2]
    assert "e" not in case.thanos(delete_delay=0)[1]

    assert "malformed" in kinds(case)
    assert case.live() == ({"a", "b"}, {"a", "b"})
    assert case.lake.file("e", META_FILE).exists()
    with pytest.raises(DamagedStreamError, match="empty source list"):
        case.read()


def test_a_replacement_with_a_shorter_time_range(case: Case) -> None:
    """Thanos removes what has its sources in a shorter block; Drystone reports it, keeps both, reads each row once."""
    case.change_meta("f", lambda meta: meta.update(minTime=meta["minTime"] + HOUR))
    assert case.thanos()[2] == {"a", "b"}

    assert "narrow-replacement" in kinds(case)
    marked, deleted = case.live()
    assert deleted == marked
    assert marked < {"a", "b"}
    assert case.read() == case.truth


def _foreign_meta(case: Case) -> None:
    case.change_meta("e", lambda meta: meta.update(version=2))


def _foreign_mark(case: Case) -> None:
    case.put_mark("e", version=2)


@pytest.mark.parametrize(("plant", "kind"), [(_foreign_meta, "malformed"), (_foreign_mark, "unreadable-mark")])
def test_another_version(case: Case, plant: Callable[[Case], None], kind: str) -> None:
    """One meta.json or mark of another version stops Thanos; for Drystone that block alone is unreadable."""
    plant(case)
    said, _, marked = case.thanos()
    assert "version" in said.error
    assert marked - {"e"} == set()

    assert kind in kinds(case)
    assert case.live() == ({"a", "b"}, {"a", "b"})
    assert case.lake.file("e", META_FILE).exists()


def test_a_half_deleted_block(case: Case) -> None:
    """A deletion that stopped half-way waits for another two days with Thanos; Drystone's next run finishes it."""
    case.runs().mark()
    case.lake.clock.advance(HOUR)
    case.lake.file("a", META_FILE).unlink()
    copy = case._folder / "thanos" / "bucket" / STREAM / case.lake.ulid("a")
    said, there, _ = case.thanos(delete_delay=0)
    assert (said.error, there) == ("", {"e", "f"})
    assert {path.name for path in copy.iterdir()} == {"chunks", "index", DELETION_MARK}
    _age(copy, TWO_DAYS + 3600)
    case.thanos(delete_delay=0)
    assert not copy.exists()

    assert case.runs().sweep() == {case.lake.ulid("a"), case.lake.ulid("b")}
    assert not case.lake.file("a", "index").parent.exists()
    assert case.read() == case.truth


def _age(folder: Path, seconds: int) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - seconds, time.time() - seconds))


def test_blocks_that_overlap(case: Case) -> None:
    """Two blocks that share some sources halt Thanos; Drystone reads each row once, and merges them first of all."""
    case.lake.ingest("c", rows(4))
    case.lake.merge("x", "b", "c")
    case.lake.clock.advance(HOUR)
    said, _, marked = case.thanos()
    assert said.halted
    assert "overlap" in said.error
    assert marked == {"a", "b", "c"}

    truth = values(pa.concat_tables([rows(1), rows(2), rows(3, day=1), rows(4)]))
    assert case.read() == truth
    (outcome,) = case.runs().compact()
    assert outcome.failures == []
    assert (outcome.summary["rows"], outcome.summary["rows_deduplicated"]) == (90, 30)


def test_a_failing_compaction(case: Case, tmp_path: Path) -> None:
    """One compaction that fails ends Thanos' round, and the next group has to wait; Drystone does all the others."""
    for name, day in (("p", 3), ("q", 3), ("r", 4), ("s", 4)):
        case.lake.ingest(name, rows(ord(name), day=day))
    case.lake.clock.advance(HOUR)
    # Two groups for Thanos, with two blocks each; of the first it cannot read the index, which is not Prometheus'.
    for name, label in (("r", "other"), ("s", "other")):
        case.change_meta(name, lambda meta, label=label: meta["thanos"]["labels"].update(dataset=label))  # type: ignore[misc]
    said, _, _ = case.thanos(vertical=True)
    assert said.error
    assert len(said.planned) == 1

    damaged = case.lake.file("p", "chunks/000001.parquet")
    raw = bytearray(damaged.read_bytes())
    raw[4 : len(raw) // 2] = bytes(len(raw) // 2 - 4)
    damaged.write_bytes(raw)
    (outcome,) = case.runs().compact()
    assert len(outcome.failures) == 1
    assert (outcome.summary["merges"], outcome.summary["rows"], len(outcome.blocks)) == (1, 60, 1)
