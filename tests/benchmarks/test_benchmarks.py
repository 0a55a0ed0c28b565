"""Every measurement runs at a tiny size, and prints and writes its tables. What it measures is no matter of a test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT))

from benchmarks import pages  # noqa: E402 - found by the line above
from benchmarks.race import Contender, DifferentAnswersError, race, versus_first  # noqa: E402 - as above

TITLES = {
    "compaction": "Minor compaction",
    "major": "Major compaction",
    "ingest": "Ingest",
    "kafka": "Kafka",
    "reading": "Reading",
    "timeline": "Timeline",
    "memory": "Memory",
    "load": "Load",
    "thanos": "Thanos",
    "fleet": "Fleet",
    "lifecycle": "Lifecycle",
}


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(1500)
def test_every_measurement_prints_and_writes_its_tables(tmp_path: Path) -> None:
    """`python -m benchmarks` at a tiny scale ends well, with each measurement's table on screen and as Markdown."""
    environment = os.environ | {"DRYSTONE_BENCH": str(tmp_path)}
    command = [sys.executable, "-m", "benchmarks", "--scale", "0.0003", "--repeat", "1"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    for name, title in TITLES.items():
        assert title in done.stdout
        assert f"**{title}" in (tmp_path / f"{name}.md").read_text()


def _says(name: str, answer: int) -> Contender:
    return Contender(name, lambda _: None, lambda _folder, _done: answer)


def test_contenders_that_do_other_work_are_not_compared(tmp_path: Path) -> None:
    """A race whose contenders answer differently ends with an error that names them, and shows no times."""
    with pytest.raises(DifferentAnswersError, match="one answers 1, other answers 2"):
        race([_says("one", 1), _says("other", 2)], 1, tmp_path / "race")


def test_contenders_take_turns(tmp_path: Path) -> None:
    """All contenders run once before any runs again, each in an empty folder."""
    seen: list[tuple[str, list[Path]]] = []

    def work(name: str, folder: Path) -> None:
        seen.append((name, list(folder.iterdir())))
        (folder / "left").touch()

    contenders = [
        Contender(name, lambda folder, name=name: work(name, folder), lambda _folder, _done: 0)  # type: ignore[misc]
        for name in ("a", "b")
    ]
    race(contenders, 2, tmp_path / "race")
    assert seen == [("a", []), ("b", []), ("a", []), ("b", [])]


def test_a_missed_goal_is_shown(tmp_path: Path) -> None:
    """A table says of each goal whether it was met or missed, by medians."""
    peer = Contender("peer", lambda _: None, lambda _folder, _done: 0, goal=2)
    results = race([_says("ours", 0), peer], 3, tmp_path / "race")
    results[0].seconds, results[1].seconds = [1.0, 1.0, 9.0], [1.0, 1.5, 1.5]
    assert versus_first("t", results).rows[1][3:] == ("1.50", "≥ 2: **missed**")
    results[1].seconds = [2.0, 2.0, 0.1]
    assert versus_first("t", results).rows[1][3:] == ("2.00", "≥ 2: met")


def test_tables_replace_what_a_page_shows(tmp_path: Path) -> None:
    """Only what stands between the comments of a measured table is replaced; others stay as they are."""
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- bench: major -->\nold\n<!-- /bench -->\nb\n<!-- bench: ingest -->\nold\n<!-- /bench -->\n")
    (tmp_path / "major.md").write_text("new\n")
    assert pages.insert((page,), tmp_path) == [page]
    expected = "a\n<!-- bench: major -->\n\nnew\n\n<!-- /bench -->\nb\n<!-- bench: ingest -->\nold\n<!-- /bench -->\n"
    assert page.read_text() == expected
    assert pages.insert((page,), tmp_path) == []
