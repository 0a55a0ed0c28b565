"""Time ranges with what they belong to, found by bisection."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class TimeRanges(Generic[T]):
    """Finds all of n ranges that touch another one in O(log n + found), however long a few of them are.

    Ranges are kept apart by the order of magnitude of their length, each sort in the order of its starts: what touches
    [start, end) begins before `end`, and no earlier than the longest of its magnitude before `start`. So at most every
    second range that is looked at is none, where ranges of a magnitude do not overlap each other.
    """

    __slots__ = ("_magnitudes",)

    def __init__(self, ranges: Iterable[tuple[int, int, T]]) -> None:
        """`ranges`: (start, end, item), half-open, in ms; an empty range touches what holds its start."""
        by_magnitude: dict[int, list[tuple[int, int, T]]] = {}
        for each in ranges:
            by_magnitude.setdefault((each[1] - each[0]).bit_length(), []).append(each)
        self._magnitudes: list[tuple[int, list[int], list[tuple[int, int, T]]]] = []
        for magnitude, found in by_magnitude.items():
            found.sort(key=_start)
            self._magnitudes.append((1 << magnitude, [each[0] for each in found], found))

    def between(self, start: int | None, end: int | None) -> Iterator[T]:
        """Yield the items whose range has max > start and min < end (None: no bound), by magnitude and start."""
        for longest, starts, found in self._magnitudes:
            low = 0 if start is None else bisect_left(starts, start - longest)
            high = len(starts) if end is None else bisect_left(starts, end)
            for position in range(low, high):
                _, last, item = found[position]
                if start is None or last > start:
                    yield item


def _start(each: tuple[int, int, object]) -> int:
    return each[0]
