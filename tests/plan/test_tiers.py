"""Size tiers: how often a row is rewritten while a stream grows, and what is left alone."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drystone.plan.tiers import runs

SIZES = st.lists(st.integers(1, 10_000), max_size=40)
RATIOS = st.sampled_from([0.5, 1.0, 2.0, 10.0])


def chosen(sizes: list[int], ratio: float = 2.0, min_items: int = 2, max_size: int = 1 << 40) -> list[list[int]]:
    """Return the sizes of each run."""
    return list(runs(sizes, int, ratio=ratio, min_items=min_items, max_size=max_size))


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([5], []),
        ([5, 5], [[5, 5]]),
        ([1, 3], []),
        ([1, 2], [[1, 2]]),
        ([1, 1, 5], [[1, 1]]),
        ([1, 1, 4], [[1, 1, 4]]),
        ([100, 1, 1, 1], [[1, 1, 1]]),
        ([1, 10, 10, 1], [[1, 1], [10, 10]]),
        ([0, 0, 0], [[0, 0, 0]]),
    ],
)
def test_like_is_merged_with_like(sizes: list[int], expected: list[list[int]]) -> None:
    """A size joins a run if it is at most twice what the run holds; the others wait, or make a run of their own."""
    assert chosen(sizes) == expected


@given(SIZES, RATIOS, st.integers(2, 6), st.integers(1, 50_000))
def test_what_a_run_is(sizes: list[int], ratio: float, min_items: int, max_size: int) -> None:
    """Runs are disjoint, long enough, within the limit, and no item is bigger than `ratio` times all before it."""
    found = chosen(sizes, ratio, min_items, max_size)
    flat = [size for run in found for size in run]
    assert not [size for size in set(flat) if flat.count(size) > sizes.count(size)]
    for run in found:
        assert len(run) >= min_items
        assert sum(run) <= max_size
        assert all(size <= ratio * sum(run[:at]) for at, size in enumerate(run) if at)


@given(SIZES, RATIOS)
def test_merging_until_nothing_is_left_to_merge_ends(sizes: list[int], ratio: float) -> None:
    """If every run becomes one item, after a few rounds no run is left."""
    for _ in range(50):
        found = chosen(sizes, ratio)
        if not found:
            break
        for run in found:
            for size in run:
                sizes.remove(size)
            sizes.append(sum(run))
    assert not chosen(sizes, ratio)


def rewrites(appends: list[int], ratio: float) -> tuple[int, float]:
    """Append items one by one, merge after each; return how often a byte was rewritten at most, and on average."""
    items: list[tuple[int, int]] = []
    written = most = 0
    for size in appends:
        items.append((size, 0))
        for run in list(runs(items, lambda item: item[0], ratio=ratio, min_items=2, max_size=1 << 40)):
            for item in run:
                items.remove(item)
            total, depth = sum(size for size, _ in run), max(depth for _, depth in run) + 1
            items.append((total, depth))
            written += total
            most = max(most, depth)
    return most, written / sum(appends)


@pytest.mark.parametrize("ratio", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("kind", ["equal", "random", "growing"])
def test_a_row_is_rewritten_a_logarithmic_number_of_times(ratio: float, kind: str) -> None:
    """Of 800 appends with a merge after each, no row is rewritten more than log(total/least) / log(1+1/ratio) times."""
    dice = Random(5)
    sizes = {
        "equal": [100] * 800,
        "random": [dice.randint(50, 500) for _ in range(800)],
        "growing": list(range(1, 801)),
    }
    appends = sizes[kind]
    most, mean = rewrites(appends, ratio)
    bound = math.log(sum(appends) / min(appends)) / math.log(1 + 1 / ratio)
    assert most <= bound
    assert mean <= bound
    assert most < 40
