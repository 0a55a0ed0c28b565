"""This process as the workers of a verb: for the terminal, and wherever else there is no Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from drystone.clock import Clock

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class LocalWorkers:
    """Runs one task after the other, here. See `drystone.engine.job.Workers`."""

    clock: Clock

    @property
    def parallelism(self) -> int:
        """One."""
        return 1

    def map(self, function: Callable[[T], R], tasks: Sequence[T], shares: int = 0) -> list[R]:  # noqa: ARG002 - as Workers
        """See `Workers.map`."""
        return [function(task) for task in tasks]
