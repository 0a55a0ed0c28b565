"""From a life that fails to one that fails with as little happening as possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence

Fails = Callable[[Sequence[int]], bool]


def shrink(choices: Sequence[int], fails: Fails, most: int = 400) -> tuple[int, ...]:
    """Return as few of the choices as possible with which a life still fails, after at most so many attempts.

    Delta debugging (Zeller and Hildebrandt 2002): leave out a half, a quarter, and so on, for as long as it fails. Each
    decision depends on its number alone, so that to leave one out does not change what the others decide.
    """
    kept = tuple(choices)
    size = max(1, len(kept) // 2)
    attempts = 0
    while attempts < most:
        smaller = None
        for start in range(0, len(kept), size):
            candidate = (*kept[:start], *kept[start + size :])
            attempts += 1
            if fails(candidate):
                smaller = candidate
                break
            if attempts >= most:
                break
        if smaller is not None:
            kept = smaller
        elif size == 1:
            break
        else:
            size = max(1, size // 2)
    return kept
