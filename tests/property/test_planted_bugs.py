"""A test that cannot fail proves nothing: each bug that is planted here breaks one of the timeline's properties."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from drystone.block.edits import Expire
from drystone.testing.happenings import random_history
from drystone.testing.history import History
from drystone.testing.invariants import BrokenInvariantError, check_against_model, check_read_exactly_once
from drystone.timeline import cover, damage, gone, groups, holders, timeline, visible
from drystone.timeline.blocks import Block
from drystone.timeline.cover import Covering
from drystone.timeline.gone import Gone
from drystone.timeline.groups import Group
from drystone.timeline.holders import Holders
from drystone.timeline.pending import Expiry
from drystone.timeline.timeline import Timeline

SEEDS = 800
Check = Callable[[History, Timeline], None]
Plant = Callable[[pytest.MonkeyPatch], None]
PLANTS: dict[str, tuple[Check, Sequence[str], Plant]] = {}


def breaks(check: Check, actions: Sequence[str] = ()) -> bool:
    """Tell whether some history, in which these things happen, fails the check."""
    for seed in range(SEEDS):
        history = random_history(Random(seed), actions)
        try:
            check(history, timeline.resolve_blocks(history.blocks, history.edits, history.times, history.now))
        except BrokenInvariantError:
            return True
    return False


def plant(check: Check, *actions: str) -> Callable[[Plant], Plant]:
    """Register a bug that the check must find, in histories of these actions."""

    def register(function: Plant) -> Plant:
        PLANTS[function.__name__] = (check, actions, function)
        return function

    return register


@plant(check_against_model)
def the_younger_wins(patch: pytest.MonkeyPatch) -> None:
    """Of equal groups the younger covers the older."""
    real = cover.preference
    patch.setattr(cover, "preference", lambda group: (*real(group)[:3], [-ord(char) for char in group.first]))


@plant(check_against_model)
def applied_edits_do_not_count(patch: pytest.MonkeyPatch) -> None:
    """Of equal groups the one with more edits applied is not preferred."""
    real = cover.preference
    patch.setattr(cover, "preference", lambda group: (real(group)[0], 0, *real(group)[2:]))


@plant(check_against_model)
def a_rewrite_never_takes_effect(patch: pytest.MonkeyPatch) -> None:
    """Of equal groups the one with the higher rewrite number is not preferred."""
    real = cover.preference
    patch.setattr(cover, "preference", lambda group: (*real(group)[:2], 0, real(group)[3]))


@plant(check_against_model)
def cover_ignores_the_time_range(patch: pytest.MonkeyPatch) -> None:
    """A group covers another with a wider time range."""
    real = cover._find_cover

    def find(group: Group, live: frozenset[str], candidates: Iterable[Group], result: Covering) -> Group | None:
        return real(group, live, candidates, result) or next(
            (each for each in candidates if live <= each.sources), None
        )

    patch.setattr(cover, "_find_cover", find)


@plant(check_read_exactly_once)
def owners_both_read(patch: pytest.MonkeyPatch) -> None:
    """What two visible groups hold is read from both."""
    patch.setattr(cover, "_settle_owners", lambda _result: None)


@plant(check_against_model)
def the_smaller_owns(patch: pytest.MonkeyPatch) -> None:
    """What two visible groups hold is read from the one with fewer sources."""
    patch.setattr(holders, "_ownership", lambda group: (len(group.sources), group.first))


@plant(check_read_exactly_once)
def some_sources_are_enough_to_cover(patch: pytest.MonkeyPatch) -> None:
    """A group covers another as soon as they share a source."""

    def find(group: Group, live: frozenset[str], candidates: Iterable[Group], result: Covering) -> Group | None:
        return next((each for each in candidates if live & each.sources), None)

    patch.setattr(cover, "_find_cover", find)
    patch.setattr(Holders, "of_rarest", lambda self, sources: next((h for s in sources if (h := self.of(s))), ()))


@plant(check_read_exactly_once)
def twins_are_members(patch: pytest.MonkeyPatch) -> None:
    """Every block of a group is read, its twins too."""
    real = groups._assemble

    def assemble(*arguments: Any) -> Group:
        group = real(*arguments)
        twins = tuple(block for block in group.others if block.loadable)
        return replace(group, members=(*group.members, *twins)) if group.complete else group

    patch.setattr(groups, "_assemble", assemble)
    patch.setattr(Group, "complete", property(lambda self: len(self.members) >= self.pattern.group_size))


@plant(check_against_model)
def a_late_twin_takes_a_ready_group_back(patch: pytest.MonkeyPatch) -> None:
    """The oldest block of an index counts, even while it is fresh and another is ready."""
    real = groups._assemble

    def assemble(name: str, blocks: list[Block], now: int, sync_delay: int) -> Group:
        return real(name, blocks, 1 << 62, sync_delay)

    patch.setattr(groups, "_assemble", assemble)


@plant(check_read_exactly_once)
def fresh_is_ready(patch: pytest.MonkeyPatch) -> None:
    """A block is read before syncDelay has passed."""
    patch.setattr(Block, "ready", lambda self, _now, _sync_delay: self.loadable)


@plant(check_read_exactly_once)
def incomplete_is_ready(patch: pytest.MonkeyPatch) -> None:
    """A group is read although members are missing."""
    patch.setattr(Group, "complete", property(lambda self: bool(self.members)))


@plant(check_read_exactly_once)
def retire_is_ignored(patch: pytest.MonkeyPatch) -> None:
    """A retired source is read."""
    real = gone.find_gone
    patch.setattr(timeline, "find_gone", lambda ready, _edits: real(ready, ()))


@plant(check_read_exactly_once)
def replacements_are_ignored(patch: pytest.MonkeyPatch) -> None:
    """A replaced source is read beside what replaces it."""
    patch.setattr(gone, "successors", lambda _pairs: {})


@plant(check_read_exactly_once)
def replacements_of_one_root_are_all_read(patch: pytest.MonkeyPatch) -> None:
    """Two replacements of one root are both read."""
    patch.setattr(gone, "successors", lambda pairs: {pair.root: pair.by for pair in pairs})


@plant(check_read_exactly_once, "replace")
def replacements_are_not_followed(patch: pytest.MonkeyPatch) -> None:
    """Of a replacement of a replacement, and another of the same root, both are read."""

    def successors(pairs: Iterable[Any]) -> dict[str, str]:
        newest: dict[str, str] = {}
        for pair in pairs:
            newest[pair.root] = max(newest.get(pair.root, ""), pair.by)
        return newest | {pair.by: newest[pair.root] for pair in pairs if pair.by not in newest.values()}

    patch.setattr(gone, "successors", successors)


@plant(check_read_exactly_once)
def edits_are_not_pending(patch: pytest.MonkeyPatch) -> None:
    """Rows are read although an erase or expire edit takes them away."""
    patch.setattr(visible, "pending_edits", lambda *_arguments: ())


@plant(check_read_exactly_once)
def an_erase_spares_replacements(patch: pytest.MonkeyPatch) -> None:
    """An erase does not apply to a source that stands for one that was planned before it."""
    real = gone.find_gone
    patch.setattr(timeline, "find_gone", lambda ready, edits: replace(real(ready, edits), origins={}))


@plant(check_read_exactly_once)
def gone_rows_are_taken_for_dropped(patch: pytest.MonkeyPatch) -> None:
    """A reader does not leave out gone sources that the group still has."""
    patch.setattr(Gone, "dropped_by", lambda self, _group, _edits: self.sources)


@plant(check_against_model)
def expired_groups_stay(patch: pytest.MonkeyPatch) -> None:
    """A group of which every row is expired stays visible."""
    patch.setattr(timeline, "expiry_of", lambda _edits: Expiry())


@plant(check_against_model)
def retention_of_one_resolution_takes_from_all(patch: pytest.MonkeyPatch) -> None:
    """What expires in one resolution expires in the others, too."""
    patch.setattr(Expiry, "before", lambda self, _resolution: max([self.everywhere, *self.own.values()]))


@plant(check_read_exactly_once)
def rows_expire_in_every_resolution(patch: pytest.MonkeyPatch) -> None:
    """The rows of a straddling block are cut by the retention of another resolution."""
    patch.setattr(Expire, "takes_from", lambda _self, _resolution: True)


@plant(check_against_model, "downsample", "expire")
def what_has_expired_elsewhere_is_not_missed(patch: pytest.MonkeyPatch) -> None:
    """A source that has expired in one resolution is no damage in another one where it is lost."""
    real = damage.Away.of
    patch.setattr(damage.Away, "of", lambda self, group: real(self, group).union(*self.expired.values()))


@plant(check_against_model)
def what_is_retired_must_be_covered(patch: pytest.MonkeyPatch) -> None:
    """A retired source keeps a group visible that holds nothing else of its own."""
    real = cover.cover
    patch.setattr(timeline, "cover", lambda ready, _gone: real(ready, frozenset()))


@plant(check_against_model)
def damage_is_not_noticed(patch: pytest.MonkeyPatch) -> None:
    """A group that lacks a member is passed over in silence."""
    patch.setattr(timeline, "find_damage", lambda *_arguments: [])


@plant(check_against_model)
def an_upload_that_runs_is_damage(patch: pytest.MonkeyPatch) -> None:
    """A group of which nothing is older than syncDelay is reported as lost."""
    real = damage.find_damage
    patch.setattr(
        timeline, "find_damage", lambda *arguments: real(*arguments[:-1], replace(arguments[-1], sync_delay=-(1 << 62)))
    )


@plant(check_against_model)
def generations_cover_each_other(patch: pytest.MonkeyPatch) -> None:
    """What is downsampled covers raw rows."""
    real = cover._biggest_first
    patch.setattr(cover, "_biggest_first", lambda *arguments: (((0, 0), pairs) for _, pairs in real(*arguments)))


def test_the_sound_code_passes() -> None:
    """Without a planted bug, no history fails a check."""
    assert not breaks(check_against_model)
    assert not breaks(check_read_exactly_once)


@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With this bug in the code, a property of the timeline has a counterexample."""
    check, actions, plant_it = PLANTS[name]
    plant_it(monkeypatch)
    assert breaks(check, actions), plant_it.__doc__
