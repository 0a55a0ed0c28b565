"""A Kafka that a test can see through: partitions with gaps, topics that are made again, messages that get lost."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drystone.errors import BucketError, UsageError
from drystone.ingest.kafka.log import Offsets, Partition, Sample, Topic

Message = tuple[str, int, int]
"""A message's topic UUID, partition and offset: there is no second one of these."""


@dataclass
class ModelPartition:
    """`messages`: when each committed one was written, by offset. `first`, `end`: as in `Log.offsets`."""

    messages: dict[int, int] = field(default_factory=dict)
    first: int = 0
    end: int = 0


@dataclass
class ModelLog:
    """See `drystone.ingest.kafka.log.Log`. `pause` is called before each answer: others may go on meanwhile."""

    clock: Callable[[], int]
    pause: Callable[[], None] = lambda: None
    group: dict[Partition, int] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    kept: dict[str, list[ModelPartition]] = field(default_factory=dict)
    produced: set[Message] = field(default_factory=set)
    deleted: set[Message] = field(default_factory=set)
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def create(self, name: str, partitions: int) -> None:
        """Make a topic, or make it again: then all of its messages are gone."""
        if name in self.ids:
            self.delete(name)
        self.ids[name] = f"topic-{next(self._numbers)}"
        self.kept[self.ids[name]] = [ModelPartition() for _ in range(partitions)]

    def delete(self, name: str) -> None:
        """Delete a topic."""
        for number in range(len(self.kept[self.ids[name]])):
            self.delete_before(name, number, self._partition(Partition(name, number)).end)
        del self.ids[name]

    def add_partition(self, name: str) -> None:
        """Give a topic one more."""
        self.kept[self.ids[name]].append(ModelPartition())

    def produce(self, name: str, number: int, count: int, *, gap: int = 0) -> None:
        """Commit messages; then `gap` offsets are used up by aborted ones and the ends of transactions."""
        partition = self._partition(Partition(name, number))
        for offset in range(partition.end, partition.end + count):
            partition.messages[offset] = self.clock()
            self.produced.add((self.ids[name], number, offset))
        partition.end += count + gap

    def delete_before(self, name: str, number: int, offset: int) -> None:
        """Delete a partition's messages before an offset, as retention does."""
        partition = self._partition(Partition(name, number))
        partition.first = max(partition.first, offset)
        for each in [each for each in partition.messages if each < offset]:
            del partition.messages[each]
            self.deleted.add((self.ids[name], number, each))

    def read(self, place: Partition, start: int, end: int) -> list[Message]:
        """Return the messages in [start, end), as a task sees them; raise BucketError where some were deleted."""
        self.pause()
        partition = self._partition(place)
        if start < partition.first or end > partition.end:
            raise BucketError(f"{place}: offsets are out of range.")
        return [(self.ids[place[0]], place[1], each) for each in sorted(partition.messages) if start <= each < end]

    def topics(self, pattern: str) -> Sequence[Topic]:
        """See `Log.topics`."""
        self.pause()
        found = [name for name in self.ids if re.fullmatch(pattern, name)]
        if not found:
            raise UsageError(f"no topic matches {pattern}.")
        return [Topic(name, self.ids[name], tuple(range(len(self.kept[self.ids[name]])))) for name in found]

    def offsets(self, partitions: Iterable[Partition]) -> Mapping[Partition, Offsets]:
        """See `Log.offsets`."""
        self.pause()
        return {each: Offsets(self._partition(each).first, self._partition(each).end) for each in partitions}

    def samples(self, ranges: Mapping[Partition, Offsets]) -> Mapping[Partition, Sample]:
        """See `Log.samples`."""
        self.pause()
        return {each: self._sample(each, *offsets) for each, offsets in ranges.items()}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """See `Log.commit`."""
        self.pause()
        self.group.update(offsets)

    def _sample(self, place: Partition, start: int, end: int) -> Sample:
        partition = self._partition(place)
        found = [partition.messages[each] for each in sorted(partition.messages) if start <= each < end]
        return Sample(len(found), 100.0, found[0]) if found else Sample()

    def _partition(self, place: Partition) -> ModelPartition:
        if place[0] not in self.ids or place[1] >= len(self.kept[self.ids[place[0]]]):
            raise BucketError(f"{place} is unknown.")
        return self.kept[self.ids[place[0]]][place[1]]
