"""Runs of the ingest from Kafka one after the other, over a model of Kafka and a bucket in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal
from uuid import uuid4

from kafka_lives import BEGIN, MAIN, MINUTE, Task, make_upload
from kafka_model import ModelLog

from drystone.bucket import Bucket, MemoryBucket
from drystone.engine.outcome import Outcome
from drystone.ingest.kafka.build import BuiltPlan
from drystone.ingest.kafka.chain import Chain, Ground
from drystone.ingest.kafka.plans import Plan
from drystone.jobs import UploadRequest

TOPIC = "flights.a"


@dataclass
class Runs:
    """A stream `flights`, its dead letters, and a Kafka with one topic of one partition.

    `dies`: whether a run is killed before or after it has the blocks of a plan uploaded. `read`: the plans that were
    read.
    """

    now: int = BEGIN
    parser: str = "p0"
    rules: dict[str, Any] = field(default_factory=dict)
    dies: Callable[[Plan], Literal["before", "after"] | None] = lambda _: None
    read: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin with nothing in the bucket."""
        self.bucket: Bucket = MemoryBucket(f"kafka-runs-{uuid4().hex}", lambda: self.now)
        self.log = ModelLog(lambda: self.now)
        self.log.create(TOPIC, 1)

    def run(self, *, dry_run: bool = False, **asked: bool) -> Outcome:
        """Do a run, a minute later."""
        self.now += MINUTE
        request = UploadRequest(**({"force": True} | asked))
        run = make_upload(
            self.bucket, self.log, lambda: self.now, self.parser, self._tasks, f"run-{self.now}", "earliest", request
        )
        config = run.job.config
        rules = config.model_copy(update={"ingest": config.kafka.model_copy(update=self.rules)})
        return replace(run, job=replace(run.job, dry_run=dry_run, config=rules)).run()

    def chain(self, topic_id: str, partition: int = 0) -> Chain:
        """Return a chain of the stream."""
        ground = Ground(self.bucket, MAIN, 0)
        root = ground.known_root(topic_id)
        assert root is not None
        return ground.chain(root, partition)

    def _tasks(self, bucket: Bucket, plans: Sequence[Plan], present: frozenset[str]) -> Sequence[BuiltPlan]:
        """Build plans as tasks do."""
        found = []
        for plan in plans:
            killed = self.dies(plan)
            if killed == "before":
                raise KilledError
            self.read.append(str(plan))
            built = Task(bucket, self.log, lambda: self.now).build(plan, present)
            if killed == "after":
                raise KilledError
            found += [] if built is None else [built]
        return found


class KilledError(Exception):
    """The run was killed."""
