"""Size tiers: which of several sizes to merge, so that every row is rewritten only O(log) times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def runs(
    items: Iterable[T], size: Callable[[T], int], *, ratio: float, min_items: int, max_size: int
) -> Iterator[list[T]]:
    """Yield disjoint runs of at least `min_items` items to merge, none above `max_size` in all.

    Sorted by size, a run goes on for as long as the next item is at most `ratio` times what the run holds already. So
    the biggest item of a merge ends up in something at least 1 + 1/ratio times its size, and no row can be rewritten
    more than log(target / smallest) / log(1 + 1/ratio) times. Items that fit in no run wait for more of their kind.
    """
    ordered = sorted(items, key=size)
    start = 0
    while start < len(ordered):
        total = size(ordered[start])
        end = start + 1
        while end < len(ordered):
            following = size(ordered[end])
            if following > ratio * max(total, 1) or total + following > max_size:
                break
            total += following
            end += 1
        if end - start >= min_items:
            yield ordered[start:end]
            start = end
        else:
            start += 1
