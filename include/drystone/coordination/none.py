"""Coordination `none`: the contract of the blocks themselves is enough."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class NoCoordination:
    """Everybody may write at any time; a block counts once it is ready, and duplicates are harmless."""

    def begin(self, run: str) -> None:
        """Nothing to ask for."""

    def stamp(self) -> Mapping[str, Any]:
        """Nothing to carry."""
        return {}

    def commit(self, blocks: Sequence[str]) -> None:
        """Nothing to do: syncDelay does it."""

    def abort(self) -> None:
        """Nothing to take back: what was uploaded whole is a duplicate at worst, what was not is removed later."""
