"""Batches: a plan's work in a few shares of about equal size, one per mapped task."""

from __future__ import annotations

import heapq
from collections.abc import Sequence


def cut_batches(sizes: Sequence[int], batches: int) -> tuple[tuple[int, ...], ...]:
    """Return at most `batches` lists of positions into `sizes`, none empty, the biggest works dealt out first."""
    heap: list[tuple[int, int]] = [(0, number) for number in range(min(batches, len(sizes)))]
    shares: list[list[int]] = [[] for _ in heap]
    for position in sorted(range(len(sizes)), key=lambda each: (-sizes[each], each)):
        load, number = heapq.heappop(heap)
        shares[number].append(position)
        heapq.heappush(heap, (load + max(sizes[position], 1), number))
    return tuple(tuple(sorted(share)) for share in shares)
