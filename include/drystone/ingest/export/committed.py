"""The committed plans of a stream's ingest, chain by chain: what there is to export.

Source: the design, "Ingest: from Kafka" (plans form a chain per partition).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from drystone.block import keys
from drystone.bucket.below import folders_below
from drystone.bucket.protocol import Bucket
from drystone.ingest.export.records import read
from drystone.ingest.kafka.plans import Done, Plan, Root


@dataclass(frozen=True, slots=True)
class Committed:
    """A plan of which every slice is in a block, since `done.time`."""

    plan: Plan
    done: Done


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition of a topic that has plans."""

    bucket: Bucket
    stream: str
    generation: int
    root: Root
    number: int

    def committed(self, start: int) -> Iterator[Committed]:
        """Yield the committed plans from the one at offset `start` on, in their order, up to the first that is not."""
        while (found := self._at(start)) is not None:
            yield found
            start = found.plan.end

    def _at(self, start: int) -> Committed | None:
        attempt = 0
        while True:
            where = (self.stream, self.generation, self.root.topic_id, self.number, start, attempt)
            plan = read(self.bucket, f"{keys.kafka_plan(*where)}.json", Plan)
            done = None if plan is None else read(self.bucket, plan.done_key, Done)
            if plan is None or done is None:
                return None
            if done.outcome == "committed":
                return Committed(plan, done)
            attempt += 1


def partitions(bucket: Bucket, stream: str, generation: int) -> Iterator[Partition]:
    """Yield every partition that was ever planned, also of topics that are gone."""
    for topic_id in folders_below(bucket, keys.kafka_topics(stream, generation)):
        root = read(bucket, keys.kafka_root(stream, generation, topic_id), Root)
        if root is None:
            continue  # Its first run is about to write it.
        for number in folders_below(bucket, keys.kafka_topic(stream, generation, topic_id)):
            yield Partition(bucket, stream, generation, root, int(number))
