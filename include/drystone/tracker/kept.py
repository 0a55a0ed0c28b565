"""Objects as they were read, kept for as long as a listing shows the same facts of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from drystone.block.folder import FileFacts

T = TypeVar("T")
_PARALLEL_GETS = 8


class Kept(Generic[T]):
    """Reads each object once, several at a time, and again only when its size or its time has changed."""

    def __init__(self, read: Callable[[str], T | None]) -> None:
        """`read`: returns what is in an object, by its key; None if it is not there any more."""
        self._read = read
        self._kept: dict[str, tuple[FileFacts, T]] = {}

    def all(self, wanted: Mapping[str, FileFacts]) -> dict[str, T]:
        """Return what is in these objects, by key, without those that are gone; forget all others.

        Raises what `read` raises; what was read before that is kept.
        """
        self._kept = {
            key: kept for key, kept in self._kept.items() if (facts := wanted.get(key)) is not None and facts == kept[0]
        }
        new = [key for key in wanted if key not in self._kept]
        if new:
            with ThreadPoolExecutor(_PARALLEL_GETS) as pool:
                for key, found in zip(new, pool.map(self._read, new), strict=True):
                    if found is not None:
                        self._kept[key] = (wanted[key], found)
        return {key: self._kept[key][1] for key in wanted if key in self._kept}
