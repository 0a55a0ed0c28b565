"""What every job works with."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from pyspark.sql import SparkSession

from drystone.block.record import StreamRecord
from drystone.block.states import Times
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.load import Loaded
from drystone.config.model import StreamConfig
from drystone.coordination import Coordination
from drystone.engine.audit import Entry, append
from drystone.plan.compaction import CompactionPolicy
from drystone.tracker import Tracker


@dataclass
class JobContext:
    """One job's surroundings: its stream, its configuration, and the handles that it works through."""

    loaded: Loaded
    stream: str
    run: str
    dry_run: bool
    bucket: Bucket
    record: StreamRecord
    tracker: Tracker
    coordination: Coordination
    spark: SparkSession
    clock: Clock
    notes: list[str] = field(default_factory=list)
    """Lines of the report."""

    @cached_property
    def config(self) -> StreamConfig:
        """The stream's configuration."""
        return self.loaded.stream(self.stream)

    @cached_property
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
