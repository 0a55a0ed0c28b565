"""What the driver of an ingest asks of Kafka: the seam to `drystone.ingest.kafka.broker`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Partition(NamedTuple):
    """A partition of a topic, by the topic's name."""

    topic: str
    number: int

    def __str__(self) -> str:
        """Return what people call it."""
        return f"{self.topic}-{self.number}"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic: `id` is its UUID as Kafka shows it (base64 for addresses); one that is made again has another."""

    name: str
    id: str
    partitions: tuple[int, ...]


class Offsets(NamedTuple):
    """What a partition has for a reader of committed messages: offsets [start, end).

    `start`: the first that retention has left. `end`: the last stable offset: before it nothing is undecided.
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Sample:
    """What waits at the beginning of a range; nothing is known if there is no committed message in it.

    `mean_bytes`: bytes of keys, values and headers per offset, so that gaps between offsets weigh nothing.
    `oldest`: the smallest timestamp (ms since the epoch) among those messages; None if they have none.
    """

    messages: int = 0
    mean_bytes: float = 0.0
    oldest: int | None = None


class Log(Protocol):
    """Kafka, as a reader of committed messages sees it. Its methods raise a DrystoneError if it does not answer."""

    def topics(self, pattern: str) -> Sequence[Topic]:
        """Return the topics whose whole name fits the regular expression; raise UsageError if there is none."""
        ...

    def offsets(self, partitions: Iterable[Partition]) -> Mapping[Partition, Offsets]:
        """Return which offsets each partition has."""
        ...

    def samples(self, ranges: Mapping[Partition, Offsets]) -> Mapping[Partition, Sample]:
        """Look at a few committed messages at the beginning of each range."""
        ...

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Move the consumer group's offsets, for other tools to see."""
        ...
