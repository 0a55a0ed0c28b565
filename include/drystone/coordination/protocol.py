"""The seam between the lifecycle and whatever keeps writers apart. Source: the design, "Coordination"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class Coordination(Protocol):
    """What a writing run asks before, while and after it writes. One instance serves one run."""

    def begin(self, run: str) -> None:
        """Ask for the right to write as `run`. Raises HeldError where somebody else has it."""
        ...

    def stamp(self) -> Mapping[str, Any]:
        """Return what the run's blocks must carry in their `extensions.drystone`."""
        ...

    def commit(self, blocks: Sequence[str]) -> None:
        """Make the run's blocks (ULIDs) count. Asking again is harmless."""
        ...

    def abort(self) -> None:
        """Give up: nothing that the run wrote may count from now on, as far as this coordination decides it."""
        ...
