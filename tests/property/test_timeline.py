"""The timeline against a model that is written straight from the design, and against what a reader gets in the end."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from drystone.testing.history import History
from drystone.testing.invariants import check_against_model, check_read_exactly_once
from drystone.testing.model import expect
from drystone.testing.strategies import histories
from drystone.timeline.timeline import Timeline, resolve_blocks

THOROUGH = settings(max_examples=3 * settings.default.max_examples)


def timeline_of(history: History) -> Timeline:
    """Resolve a history as it is seen at its end."""
    return resolve_blocks(history.blocks, history.edits, history.times, history.now)


@THOROUGH
@given(histories())
def test_the_timeline_is_what_the_design_says(history: History) -> None:
    """Visible, covered, out, pending and incomplete groups, owners and damage are those of the reference model."""
    check_against_model(history, timeline_of(history))


@THOROUGH
@given(histories())
def test_every_row_is_read_exactly_once(history: History) -> None:
    """A reader gets each row of each ready source once, and nothing fresh, incomplete, erased, retired or replaced."""
    check_read_exactly_once(history, timeline_of(history))


@given(histories(), st.randoms(use_true_random=False))
def test_the_order_of_blocks_does_not_matter(history: History, dice: random.Random) -> None:
    """Blocks and edits in another order give the same timeline, down to which group is said to cover which."""
    one = timeline_of(history)
    dice.shuffle(history.blocks)
    dice.shuffle(history.edits)
    other = timeline_of(history)
    for field in ("groups", "covered", "out", "pending", "incomplete", "twins", "gone"):
        assert getattr(one, field) == getattr(other, field)
    assert set(one.damage) == set(other.damage)
    assert set(one.problems) == set(other.problems)
    excluded = {name: (each.excluded, each.gone, frozenset(each.edits)) for name, each in one.visible.items()}
    assert excluded == {name: (each.excluded, each.gone, frozenset(each.edits)) for name, each in other.visible.items()}


@given(histories())
def test_what_was_read_once_is_never_lost(history: History) -> None:
    """As time goes by and nothing is deleted, what was read goes on to be read, unless it is replaced."""
    before = expect(history.blocks, history.edits, history.times, history.now)
    history.now += history.times.group_timeout
    after = timeline_of(history)
    read = {source for visible in after.visible.values() for source in visible.group.sources - visible.excluded}
    for name, sources in before.reads.items():
        assert sources - after.gone.sources <= read, name


@given(histories(), st.integers(-40, 80), st.integers(1, 60))
def test_a_lookup_finds_what_has_rows_in_a_time_range(history: History, start: int, hours: int) -> None:
    """A lookup by time yields each visible group whose time range touches the wanted one, and no other."""
    timeline = timeline_of(history)
    low = 1_699_920_000_000 + start * 3_600_000
    for begin, end in ((low, low + hours * 3_600_000), (low, None), (None, low), (None, None)):
        found = [visible.group.id for visible in timeline.visible.between(begin, end)]
        due = [
            name
            for name, visible in timeline.visible.items()
            if (begin is None or visible.group.max_time > begin) and (end is None or visible.group.min_time < end)
        ]
        assert sorted(found) == sorted(due)
