"""Streams live in bad weather on a bucket that lags, and no invariant of the design breaks; planted bugs are caught."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from drystone.testing import simulate
from drystone.testing.simulation.faulty import what
from drystone.testing.simulation.life import Lived
from drystone.testing.simulation.plants import PLANTS
from drystone.testing.simulation.shrink import shrink
from drystone.testing.simulation.summary import EXERCISED, Summary

RARE = ("no-second-look", "twins-are-members", "partial-cover", "half-is-done", "files-unseen", "weak-rewrite")
SEEDS = range(40_000, 40_016)
"""A fixed budget, so that the same code gives the same result; `make simulate` takes others."""


@pytest.mark.parametrize("seed", SEEDS)
def test_a_life_breaks_no_invariant(seed: int) -> None:
    """Whatever crashes, lags, fails or wakes up late: the five invariants of the design hold, up to the last row."""
    lived = simulate.run(seed)
    assert not lived.failure, f"{lived.failure}\n{simulate.command(lived, '', simulate.HOURS)}"


@pytest.mark.parametrize("name", [name for name in PLANTS if name not in RARE])
def test_a_planted_bug_is_caught(name: str) -> None:
    """With this rule broken, a life breaks an invariant, one of the first few."""
    seeds, _ = simulate.seeds_until_caught(name, 60)
    assert seeds, f"{PLANTS[name].rule}: nobody noticed"


@pytest.mark.slow
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("name", RARE)
def test_a_bug_that_shows_rarely_is_caught(name: str) -> None:
    """The same for bugs that need several things to go wrong at once."""
    seeds, _ = simulate.seeds_until_caught(name, 400)
    assert seeds, f"{PLANTS[name].rule}: nobody noticed"


def test_a_seed_is_one_life() -> None:
    """The same seed gives the same life in another process, whatever order that gives to sets."""
    program = "from drystone.testing import simulate; l = simulate.run(7); print(l.unusual, sorted(l.points.items()))"
    lives = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(lives) == 1


def test_a_failure_is_shrunk_to_a_line_that_replays_it(capsys: pytest.CaptureFixture[str]) -> None:
    """A failing seed ends with exit code 1 and a command; that command fails in the same way, with less happening."""
    plant = PLANTS["meta-deleted-last"]
    arguments = ["--seed", "0", "--plant", plant.name]
    assert simulate.main([*arguments, "--attempts", "12"]) == 1
    said = capsys.readouterr().out.splitlines()
    line = said[-1].partition("python -m drystone.testing.simulate ")[2]
    assert simulate.main(line.split()) == 1
    assert "rule 8" in capsys.readouterr().out
    kept = line.partition("--keep ")[2].split(",")
    assert len(kept) < len(simulate.run(0, plant.name).unusual)


def test_shrinking_keeps_what_matters() -> None:
    """Of a thousand choices the three that a failure needs are left."""
    assert shrink(range(1_000), lambda kept: {3, 500, 998} <= set(kept), 2_000) == (3, 500, 998)


def test_what_was_never_exercised_fails() -> None:
    """A simulation in which something that matters never happened is no success, and says so."""
    summary = Summary()
    summary.add(Lived(1, tally=simulate.run(7).tally))
    assert summary.missing
    assert any(line.startswith("Never happened: ") for line in summary.lines())
    for name in EXERCISED:
        summary.tally[name] += 1
    assert not summary.missing


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("life/01HF7YAF41R7QJ1T0955XBR94B/meta.json", "meta"),
        ("life/01HF7YAF41R7QJ1T0955XBR94B/", "block"),
        ("life/01HF7YAF41R7QJ1T0955XBR94B/chunks/000001.parquet", "chunks"),
        ("life/.lease/000000000001.json", "lease"),
        ("life/.stream.json", "stream"),
        ("life/", "blocks"),
    ],
)
def test_crash_points_have_names(key: str, kind: str) -> None:
    """A point is named by the kind of object that a request is about."""
    assert what(key) == kind
