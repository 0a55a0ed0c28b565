"""Drystone's covering agrees with the real Thanos', and where it does not, a rule of the design says why."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from thanos_buckets import Stream, in_drystones_words, in_thanos_words
from thanos_comparison import THANOS_ERRS, Counts, Why, compare, compare_both, count
from thanos_oracle import Verdict, judge

from drystone.plan import support
from drystone.plan.overlaps import find_overlaps
from drystone.timeline import cover
from drystone.timeline.blocks import Block
from drystone.timeline.groups import Group

# The first time, the program around Thanos' packages is built.
pytestmark = pytest.mark.timeout(1800)

STREAMS = 2000
PLANT_STREAMS = 400


@pytest.fixture(scope="module")
def found() -> tuple[Counts, Counts]:
    """What is found in thousands of streams: in Thanos' words, and in all of Drystone's."""
    return compare_both(STREAMS)


def test_every_difference_is_a_case_that_thanos_gets_wrong(found: tuple[Counts, Counts]) -> None:
    """In Thanos' own words, the two differ in the named cases only, and every one of them does occur."""
    counts, _ = found
    assert counts.unexplained == []
    assert counts.differences.keys() == set(THANOS_ERRS)
    assert counts.streams == STREAMS
    assert counts.both_remove > STREAMS
    assert counts.both_keep > STREAMS


def test_the_rest_are_rules_that_thanos_does_not_have(found: tuple[Counts, Counts]) -> None:
    """With groups, edits and damage, each difference is one of the named rules; again every one of them occurs."""
    _, counts = found
    assert counts.unexplained == []
    assert counts.differences.keys() == set(Why) - {Why.MARKED, Why.EMPTY, Why.VERSION}
    assert counts.both_remove > STREAMS
    assert counts.both_keep > STREAMS


def test_thanos_would_halt_where_drystone_goes_on(found: tuple[Counts, Counts]) -> None:
    """Blocks that overlap in time, which stop Thanos' compactor, are as common as can be."""
    assert all(counts.halted > counts.streams // 10 for counts in found)


def _without_ranges(group: Group, live: frozenset[str], candidates: Any, _result: Any) -> Group | None:
    return next((other for other in candidates if live <= other.sources and other is not group), None)


def _partly(group: Group, live: frozenset[str], candidates: Any, _result: Any) -> Group | None:
    return next((other for other in candidates if live & other.sources), None)


PLANTS: dict[str, tuple[object, str, object]] = {
    "the time range does not matter": (cover, "_find_cover", _without_ranges),
    "a part of the sources is enough": (cover, "_find_cover", _partly),
    "of equal blocks the newest wins": (
        cover,
        "preference",
        lambda group: (-len(group.sources), *(-ord(letter) for letter in group.first)),
    ),
    "resolutions cover each other": (cover, "_biggest_first", None),
    "a marked block is a cover": (
        support.Support,
        "group",
        lambda self, name: tuple(block.ulid for block in self._timeline.groups[name].members),
    ),
}


def _one_realm(ready: Any, gone: Any) -> Any:
    """Yield the groups as if there were no resolutions and generations."""
    pairs = [(group, group.sources - gone) for group in ready]
    for pair in sorted(pairs, key=lambda pair: (-len(pair[1]), cover.preference(pair[0]))):
        yield (0, 0), [pair]


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_bug_is_seen(plant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Drystone gets wrong about covering is a difference that nothing explains, or the end of a named one."""
    where, name, wrong = PLANTS[plant]
    monkeypatch.setattr(where, name, wrong or _one_realm)
    counts = compare(in_thanos_words, range(PLANT_STREAMS))
    assert counts.unexplained or counts.differences.keys() != set(THANOS_ERRS)


def _forget_one(verdict: Verdict) -> frozenset[str]:
    return verdict.duplicates - {max(verdict.duplicates)}


def _take_one_more(verdict: Verdict) -> frozenset[str]:
    everything = frozenset[str]().union(*verdict.groups.values())
    return verdict.duplicates | {min(everything - verdict.duplicates)}


@pytest.mark.parametrize("lie", [_forget_one, _take_one_more])
def test_an_oracle_that_errs_is_seen(lie: Callable[[Verdict], frozenset[str]]) -> None:
    """A block that the oracle forgets, or removes for no reason, is a difference that nothing explains."""
    stream, verdict = _a_stream_that_both_agree_on()
    told = Verdict(lie(verdict), verdict.groups, verdict.overlapping, verdict.plans, verdict.unreadable)
    counts = Counts()
    count(counts, stream, told)
    (found,) = counts.unexplained
    assert found.startswith(stream.name)


def _a_stream_that_both_agree_on() -> tuple[Stream, Verdict]:
    streams = [in_thanos_words(seed) for seed in range(200)]
    for stream, verdict in zip(streams, judge(stream.metas for stream in streams), strict=True):
        if len(stream.superseded) > 1 and not stream.marks:
            counts = Counts()
            count(counts, stream, verdict)
            if not counts.differences and not counts.unexplained:
                return stream, verdict
    raise AssertionError("no stream that both agree on")


def test_a_folder_is_read_as_its_files(tmp_path: Path) -> None:
    """Thanos says the same of blocks in a folder, read by its own code, as of what this test hands over."""
    streams = [in_drystones_words(seed) for seed in range(20)] + [in_thanos_words(seed) for seed in range(20)]
    folders = [stream.write(tmp_path / stream.name) for stream in streams]
    assert judge(folders) == judge(stream.metas for stream in streams)


def test_both_merge_overlaps_first() -> None:
    """Where Drystone would merge blocks because they share a source, Thanos plans for blocks that overlap in time."""
    streams = [in_thanos_words(seed) for seed in range(600)]
    compared = 0
    for stream, verdict in zip(streams, judge(stream.metas for stream in streams), strict=True):
        shared = [several for holders in stream.timeline.holders.values() for _, several in holders.shared()]
        for component in find_overlaps(stream.timeline.visible.groups, shared):
            blocks = [stream.blocks[group.id] for group in component]
            if verdict.unreadable or not verdict.duplicates.isdisjoint(block.ulid for block in blocks):
                continue
            compared += 1
            (key,) = (key for key, group in verdict.groups.items() if blocks[0].ulid in group)
            assert key in verdict.overlapping
            assert _overlap([stream.blocks[ulid] for ulid in verdict.plans[key]])
    assert compared > 20


def _overlap(plan: list[Block]) -> bool:
    """Whether some of the blocks overlap in time; Thanos plans in the order of their starts."""
    return any(later.min_time < earlier.max_time for earlier, later in pairwise(plan))
