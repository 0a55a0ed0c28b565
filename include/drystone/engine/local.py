"""This process as the workers of a verb: for the terminal, and wherever else there is no Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from drystone.clock import Clock

T = TypeVar("T")
R = TypeVar("R")


class TooMuchError(Exception):
    """There is more to do than these workers are for. Nothing of it was begun."""


@dataclass(frozen=True, slots=True)
class LocalWorkers:
    """Runs one task after the other, here. See `drystone.engine.job.Workers`.

    `most_tasks`, `most_bytes`: what is taken on at a time; None: anything.
    """

    clock: Clock
    most_tasks: int | None = None
    most_bytes: int | None = None

    @property
    def parallelism(self) -> int:
        """One."""
        return 1

    def expect(self, tasks: int, size: int = 0) -> None:
        """See `Workers.expect`."""
        for much, most in ((tasks, self.most_tasks), (size, self.most_bytes)):
            if most is not None and much > most:
                raise TooMuchError(f"{tasks} tasks that read {size:,} bytes")

    def map(self, function: Callable[[T], R], tasks: Sequence[T], shares: int = 0) -> list[R]:  # noqa: ARG002 - as Workers
        """See `Workers.map`."""
        return [function(task) for task in tasks]
