"""Everything that chance decides in a simulated life, from one seed, decision by decision."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

T = TypeVar("T")
_MASK = (1 << 64) - 1


class Choices:
    """Decides by a seed, and remembers which decisions did not come out plain.

    Decision number n depends on the seed and on n alone. So a life can be lived again with only some of the unusual
    decisions kept, which is how a failure is shrunk: the others come out plain, the first of what could be chosen.
    """

    def __init__(self, seed: int, keep: Collection[int] | None = None) -> None:
        """`keep`: the numbers of the decisions that may be unusual; None: all."""
        self.seed = seed
        self.unusual: list[int] = []
        self._keep = None if keep is None else frozenset(keep)
        self._made = 0

    def pick(self, options: Sequence[T]) -> T:
        """Return one of the options, each as likely as another."""
        return options[self._decide(len(options))]

    def happens(self, one_in: float) -> bool:
        """Tell whether something happens that does so once in so many times; 0: never."""
        self._made += 1
        if not one_in or one_in * _mix(self.seed, self._made) > _MASK:
            return False
        return self._is_kept()

    def _decide(self, options: int) -> int:
        self._made += 1
        found = _mix(self.seed, self._made) % options
        return found if found and self._is_kept() else 0

    def _is_kept(self) -> bool:
        if self._keep is not None and self._made not in self._keep:
            return False
        self.unusual.append(self._made)
        return True


def fraction(seed: int, *parts: object) -> float:
    """Return a number in [0, 1) that follows from the seed and the parts, however often it is asked for."""
    number = seed
    for part in parts:
        number = _mix(number, part if isinstance(part, int) else int.from_bytes(str(part).encode(), "big"))
    return number / (_MASK + 1)


def _mix(seed: int, number: int) -> int:
    """Return 64 bits that follow from both (SplitMix64, Steele, Lea and Flood 2014)."""
    mixed = (seed * 0x9E3779B97F4A7C15 + number * 0xD1342543DE82EF95 + 0x632BE59BD9B4E019) & _MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
    return mixed ^ (mixed >> 31)
