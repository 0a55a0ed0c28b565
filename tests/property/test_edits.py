"""Whatever happens to a stream, what an edit has taken never comes back, and in the end it is in no block any more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from drystone.engine import recipe
from drystone.engine.recipe import Recipe
from drystone.plan import erasures
from drystone.testing.invariants import BrokenInvariantError
from drystone.testing.living import live

SEEDS = range(40)


def life(seed: int) -> None:
    """Let a stream live at random, with zombies, edits and rewrites, then bring its erasures to their end."""
    live(seed, steps=40).erased_for_good()


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_taken_is_gone_for_good(seed: int) -> None:
    """No reader ever gets such a row again, and after rewrites and sweeps no block holds one."""
    life(seed)


def rewrites_win_nothing(patch: pytest.MonkeyPatch) -> None:
    """A rewritten group does not cover the one that it was made of."""
    real = Recipe.__init__
    patch.setattr(Recipe, "__init__", lambda self, **named: real(self, **{**named, "edits": frozenset(), "rewrite": 0}))


def applied_edits_are_not_applied(patch: pytest.MonkeyPatch) -> None:
    """A merge says that it has applied an edit, and passes its rows on."""
    real = recipe._inputs
    patch.setattr(recipe, "_inputs", lambda *them: [replace(each, edits=()) for each in real(*them)])


def retired_rows_are_passed_on(patch: pytest.MonkeyPatch) -> None:
    """A merge says that a retirement is applied, and passes its rows on."""
    real = Recipe.__init__
    patch.setattr(Recipe, "__init__", lambda self, **named: real(self, **{**named, "gone": frozenset()}))


def nothing_needs_a_rewrite(patch: pytest.MonkeyPatch) -> None:
    """Groups with such rows are left as they are."""
    patch.setattr(erasures, "_why", lambda *_arguments: "")


@pytest.mark.parametrize(
    "plant", [rewrites_win_nothing, applied_edits_are_not_applied, retired_rows_are_passed_on, nothing_needs_a_rewrite]
)
def test_a_planted_bug_is_seen(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """With this bug in the code, some life ends with such a row read, or kept."""
    plant(monkeypatch)
    assert any(breaks(seed) for seed in SEEDS), plant.__doc__


def breaks(seed: int) -> Any:
    """Tell whether a life breaks what must hold."""
    try:
        life(seed)
    except (BrokenInvariantError, RecursionError):
        return True
    return False
