"""What every verb works with, wherever its tasks run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from drystone.block.record import StreamRecord
from drystone.block.states import Times
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.coordination import Coordination
from drystone.engine.audit import Entry, append
from drystone.engine.pacer import Pacer
from drystone.plan.compaction import CompactionPolicy
from drystone.tracker import Tracker

T = TypeVar("T")
R = TypeVar("R")


class Workers(Protocol):
    """Whoever runs a job's tasks: processes of a cluster, or this one."""

    @property
    def clock(self) -> Clock:
        """The clock that tasks go by, where they run: it can be sent there."""
        ...

    @property
    def parallelism(self) -> int:
        """About how many tasks run at once."""
        ...

    def expect(self, tasks: int, size: int = 0) -> None:
        """Be told, before anything of it is begun, of tasks that together read about `size` bytes.

        Workers that are for less raise TooMuchError: then others are to do all of it.
        """
        ...

    def map(self, function: Callable[[T], R], tasks: Sequence[T], shares: int = 0) -> list[R]:
        """Return the function's result for each task, in their order; raise what a task raises.

        `shares`: into how many parts the tasks are cut, by default one each. A task may run more than once, also when
        it succeeded the first time, and both at once.
        """
        ...


@dataclass(kw_only=True)
class Job:
    """One job's surroundings: its stream, its configuration, and the handles that it works through."""

    stream: str
    config: StreamConfig
    run: str
    dry_run: bool
    bucket: Bucket
    record: StreamRecord
    tracker: Tracker
    coordination: Coordination
    workers: Workers
    clock: Clock
    pacer: Pacer

    @property
    def times(self) -> Times:
        """The stream's times."""
        return self.config.times.times()

    @property
    def policy(self) -> CompactionPolicy:
        """What the stream wants of its compactions."""
        config = self.config
        return CompactionPolicy(config.compaction, config.granularity, self.times, config.generation)

    def audit(self, what: str, done: dict[str, str]) -> None:
        """Log that `what` was done to each block, with the reason."""
        now = self.clock()
        append(self.bucket, self.stream, (Entry(what, ulid, why, self.run, now) for ulid, why in done.items()), now)
