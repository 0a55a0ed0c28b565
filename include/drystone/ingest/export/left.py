"""How old the oldest message of a topic is that is not exported yet: what decides whether a period is finished.

Source: the design, "Ingest: formats" (finished periods). What is ingested and not exported tells it by its time chunk;
what is not ingested is in Kafka, where the first messages that wait tell their times. Where nothing waits, whatever
comes is younger than the moment at which Kafka was asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from drystone.clock import Clock
from drystone.ingest.export.periods import LONG_AGO
from drystone.ingest.kafka.log import Log, Offsets, Partition


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a partition is: ingested before offset `end`, of that all exported but what began at `oldest` (ms)."""

    topic: str
    topic_id: str
    partition: int
    end: int
    oldest: int | None


class Left:
    """What Kafka had at one moment: make it before looking at what is ingested, so that nothing lies between."""

    def __init__(self, kafka: Log, pattern: str, clock: Clock) -> None:
        """`pattern`: of the topics that are ingested. Raises as the methods of `kafka` do."""
        self._kafka = kafka
        self._pattern = re.compile(pattern)
        self._now = clock()
        self._topics = kafka.topics(pattern)
        self._ids = {topic.name: topic.id for topic in self._topics}
        self._offsets = kafka.offsets(
            Partition(topic.name, each) for topic in self._topics for each in topic.partitions
        )

    def oldest(self, reached: Iterable[Reached]) -> dict[str, int]:
        """Return for each topic when its oldest message was written (ms), of those that are not exported yet.

        A topic that was deleted has nothing left but what is ingested. One that the pattern no longer fits may have
        anything.
        """
        known = list(reached)
        found: dict[str, int] = dict.fromkeys([*self._ids, *(each.topic for each in known)], self._now)
        for each in known:
            fits = self._pattern.fullmatch(each.topic) is not None
            oldest = each.oldest if fits else LONG_AGO
            if oldest is not None:
                found[each.topic] = min(found[each.topic], oldest)
        for partition, sample in self._kafka.samples(self._waiting(known)).items():
            if sample.oldest is not None:
                found[partition.topic] = min(found[partition.topic], sample.oldest)
        return found

    def _waiting(self, reached: Iterable[Reached]) -> dict[Partition, Offsets]:
        """Return the offsets that Kafka had, and that are not ingested."""
        ends = {(each.topic, each.topic_id, each.partition): each.end for each in reached}
        waiting = {}
        for partition, offsets in self._offsets.items():
            end = ends.get((partition.topic, self._ids[partition.topic], partition.number), offsets.start)
            if end < offsets.end:
                waiting[partition] = Offsets(max(end, offsets.start), offsets.end)
        return waiting
