"""docs/reference/states.md is the rule for the states of a block: the code does what both of its tables say."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import pytest

from drystone import ulids
from drystone.block.folder import FileFacts, Folder
from drystone.block.marks import DELETION_MARK, DeletionMark
from drystone.block.meta import META_FILE, Compaction, File, Meta, Stats, Thanos
from drystone.block.states import State, Times, state

PAGE = Path(__file__).parents[2] / "docs/reference/states.md"
TIMES = Times(sync_delay=60_000, delete_delay=120_000)
NOW = 1_700_000_000_000
CHUNK = "chunks/000001.parquet"

FACTS = {
    "mark": ["none", "unreadable", "younger than `delete_delay`", "older than `delete_delay`"],
    "meta": ["missing", "unusable", "usable"],
    "young": ["yes", "no"],
    "covered": ["yes", "no"],
}


def table(heading: str) -> list[list[str]]:
    """Return the rows of the table under a heading of the page."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def fits(cell: str, fact: str) -> bool:
    """Tell whether a cell of the table allows a fact."""
    if cell.startswith("any"):
        return not (cell == "any but none" and fact == "none")
    return cell in (fact, "") or fact in cell.split(", ")


def block(mark: str = "none", meta: str = "usable", young: str = "no") -> Folder:
    """Return a block's folder with these facts at the moment NOW."""
    began = NOW - (1_000 if young == "yes" else 10_000_000)
    ulid = ulids.derive(began, "a block")
    files = {CHUNK: FileFacts(100, began)}
    parsed = None
    if meta != "missing":
        files[META_FILE] = FileFacts(10, began)
        parsed = Meta(
            version=1,
            ulid=ulid,
            min_time=0,
            max_time=1,
            stats=Stats(num_samples=1, num_chunks=1),
            compaction=Compaction(level=1, sources=(ulid,)),
            thanos=Thanos(labels={"a": "b"}, files=(File(rel_path=CHUNK, size_bytes=100 if meta == "usable" else 99),)),
        )
    if mark == "none":
        return Folder(ulid, files, parsed)
    files[DELETION_MARK] = FileFacts(10, NOW)
    age = 1 if mark.startswith("younger") else TIMES.delete_delay // 1000
    note = None if mark == "unreadable" else DeletionMark(id=ulid, deletion_time=NOW // 1000 - age)
    return Folder(ulid, files, parsed, mark=note)


@pytest.mark.parametrize("facts", list(itertools.product(*FACTS.values())), ids=" / ".join)
def test_every_combination_of_facts_has_one_state(facts: tuple[str, ...]) -> None:
    """Every combination of facts meets exactly one line of the page's first table, and the code says the same state."""
    said = [row[-1] for row in table("From facts to state") if all(map(fits, row[:-1], facts))]
    mark, meta, young, covered = facts
    got = state(block(mark, meta, young), NOW, TIMES, overlapped=covered == "yes")
    assert said == [f"`{got.value}`"]


def later(folder: Folder, **changes: object) -> Folder:
    """Return the folder with changed fields."""
    return dataclasses.replace(folder, **changes)  # type: ignore[arg-type]


def without(folder: Folder, name: str) -> Folder:
    """Return the folder without one of its files."""
    return later(folder, files={key: facts for key, facts in folder.files.items() if key != name})


Seen = tuple[Folder, int, bool]
"""A folder, the moment it is looked at, and whether it is covered."""

YOUNG = block(young="yes")
OLD = NOW + TIMES.sync_delay
MARKED = block(mark="younger than `delete_delay`")
WALKS: dict[str, tuple[Seen | None, Seen | None]] = {
    "an upload begins": (None, (block(meta="missing", young="yes"), NOW, False)),
    "meta.json is uploaded": ((block(meta="missing", young="yes"), NOW, False), (YOUNG, NOW, False)),
    "`sync_delay` passes, with a usable meta.json": ((YOUNG, NOW, False), (YOUNG, OLD, False)),
    "`sync_delay` passes, without meta.json": (
        (block(meta="missing", young="yes"), NOW, False),
        (block(meta="missing", young="yes"), OLD, False),
    ),
    "`sync_delay` passes, with an unusable meta.json": (
        (block(meta="unusable", young="yes"), NOW, False),
        (block(meta="unusable", young="yes"), OLD, False),
    ),
    "meta.json arrives late": (
        (block(meta="missing"), NOW, False),
        (later(block(), files={**block().files, META_FILE: FileFacts(10, NOW)}), NOW, False),
    ),
    "a listed file is lost": ((block(), NOW, False), (without(block(), CHUNK), NOW, False)),
    "a group that covers it becomes ready": ((block(), NOW, False), (block(), NOW, True)),
    "it is marked": ((block(), NOW, True), (MARKED, NOW, True)),
    "it is unmarked": ((MARKED, NOW, True), (later(without(MARKED, DELETION_MARK), mark=None), NOW, True)),
    "`delete_delay` passes": ((MARKED, NOW, True), (MARKED, NOW + TIMES.delete_delay, True)),
    "its meta.json is deleted": (
        (block(mark="older than `delete_delay`"), NOW, True),
        (later(without(block(mark="older than `delete_delay`"), META_FILE), meta=None), NOW, False),
    ),
    "the rest is deleted": ((block(mark="older than `delete_delay`", meta="missing"), NOW, False), None),
    "its files are deleted": ((block(meta="missing"), NOW, False), None),
}


def name(seen: Seen | None) -> str:
    """Return the state's name as the page writes it; `nothing` where there is no block."""
    if seen is None:
        return "nothing"
    folder, moment, covered = seen
    return f"`{state(folder, moment, TIMES, overlapped=covered).value}`"


@pytest.mark.parametrize("row", table("From state to state"), ids=lambda row: row[1])
def test_every_transition_is_as_the_page_says(row: list[str]) -> None:
    """What happens in a line of the page's second table leads from the one state to the other."""
    before, event, after = row
    seen_before, seen_after = WALKS[event]
    assert (name(seen_before), name(seen_after)) == (before, after)


def test_the_page_names_every_state() -> None:
    """Every state is in the diagram and in each table of the page."""
    text = PAGE.read_text()
    for one in State:
        assert f"    {one.value} --> " in text or f"--> {one.value}:" in text
        assert any(f"`{one.value}`" in row for row in table("From facts to state"))
        assert [row for row in table("Who does what with them") if row[0] == one.value]
