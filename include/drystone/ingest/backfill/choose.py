"""Which ingest plans a wrong range concerns: by names, and by what the plans came to; no row is read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drystone.block.chunks import chunk_at
from drystone.errors import UsageError
from drystone.ingest.kafka.records import Committed, Records

_RANGE = re.compile(r"(?P<topic>[^:]+):(?P<partition>\d+)(:(?P<start>\d+)-(?P<end>\d+))?")


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets [start, end) of a topic's partition; `end` None: all from `start` on."""

    topic: str
    partition: int
    start: int = 0
    end: int | None = None

    def __str__(self) -> str:
        """As `parse_range` takes it."""
        place = f"{self.topic}:{self.partition}"
        return place if self.end is None else f"{place}:{self.start}-{self.end - 1}"


def parse_range(text: str) -> OffsetRange:
    """Return the offsets that `TOPIC:PARTITION` or `TOPIC:PARTITION:FIRST-LAST` (both included) names.

    Raises UsageError for anything else.
    """
    found = _RANGE.fullmatch(text)
    if found is None or (found["start"] and int(found["start"]) > int(found["end"])):
        raise UsageError(f"{text!r} names no offsets.", "Write TOPIC:PARTITION or TOPIC:PARTITION:FIRST-LAST.")
    partition = int(found["partition"])
    if found["start"] is None:
        return OffsetRange(found["topic"], partition)
    return OffsetRange(found["topic"], partition, int(found["start"]), int(found["end"]) + 1)


def by_offsets(records: Records, ranges: Sequence[OffsetRange]) -> Iterator[Committed]:
    """Yield the committed plans with offsets of these ranges, each once. Raises UsageError for an unknown topic."""
    roots = records.roots()
    seen: set[str] = set()
    for each in ranges:
        mine = [root for root in roots if root.topic == each.topic]
        if not mine:
            known = ", ".join(sorted({root.topic for root in roots})) or "none"
            raise UsageError(f"stream {records.stream} has read no topic {each.topic}.", f"It knows {known}.")
        for root in mine:
            for found in records.committed(root.topic_id, each.partition, each.start, each.end):
                if found.plan.key not in seen and found.slices.slices:
                    seen.add(found.plan.key)
                    yield found


def by_time(records: Records, start: int, end: int) -> Iterator[Committed]:
    """Yield the committed plans that have rows in a time chunk which touches [start, end) (ms).

    Rows of unknown time are taken for ones of the time at which they were planned.
    """
    for root in records.roots():
        for partition in records.partitions(root.topic_id):
            for found in records.committed(root.topic_id, partition):
                chunks = (chunk_at(part.chunk_start, part.granularity) for part in found.slices.slices)
                if any(chunk.start < end and start < chunk.end for chunk in chunks):
                    yield found
