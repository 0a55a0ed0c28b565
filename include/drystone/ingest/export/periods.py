"""Days and hours of a topic: which are open, and which are finished, so that they get their `_SUCCESS`.

Source: the design, "Ingest: formats" (finished periods get `_SUCCESS`). A period is open from before its first file on;
an object says so, which goes when the period is finished: so nobody has to look through all folders that there ever
were. Messages that come later than the grace allows are exported all the same.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from drystone.block import keys
from drystone.bucket.protocol import Bucket
from drystone.errors import ObjectExistsError, ObjectMissingError, UsageError
from drystone.ingest.export.records import Shape
from drystone.ingest.formats.layout import PERIODS, UNKNOWN, Folders
from drystone.ingest.kafka.plans import Plan

LONG_AGO = -(1 << 62)
"""Older than any message, in ms."""


@dataclass(frozen=True, slots=True)
class Period:
    """An open day or hour of a topic, and the object that says so."""

    topic: str
    folders: Folders
    number: int
    marker: str

    @property
    def end(self) -> int:
        """When it is over, in ms since the epoch."""
        return (self.number + 1) * PERIODS[self.folders.split]

    def success_key(self, prefix: str, name: str) -> str:
        """The key of the object that says that it is finished."""
        return "/".join([prefix, self.topic, *self.folders.parts(self.number), name])


def note_open(bucket: Bucket, plan: Plan, shape: Shape, numbers: Iterable[int]) -> None:
    """Note that these folders of the plan's topic are about to get files; those that have no end are left out."""
    if shape.split not in PERIODS:
        return
    prefix = f"{_open(plan.stream, plan.generation, shape.prefix)}{plan.topic}/{shape.split}/"
    for number in numbers:
        if number != UNKNOWN:
            bucket.put(f"{prefix}{number}", b"{}")


def open_periods(bucket: Bucket, stream: str, generation: int, prefix: str) -> Iterator[Period]:
    """Yield the open periods of all topics, topic by topic."""
    place = _open(stream, generation, prefix)
    for item in bucket.list(place):
        topic, split, number = item.key.removeprefix(place).split("/")
        yield Period(topic, Folders("hour" if split == "hour" else "day"), int(number), item.key)


def is_finished(period: Period, oldest: int, grace: int) -> bool:
    """Tell whether every message that may still come is younger than the period's end by `grace`.

    `oldest`: when the oldest message of the topic was written, of all its partitions, that is not exported yet.
    """
    return period.end + grace <= oldest


def finish(bucket: Bucket, period: Period, prefix: str, name: str, generation: int) -> bool:
    """Say that a period is finished, and tell whether that is news.

    Raises UsageError if another generation has said so for its own files: nobody could tell whose are all there.
    """
    key, news = period.success_key(prefix, name), True
    try:
        bucket.create(key, json.dumps({"generation": generation}).encode() + b"\n")
    except ObjectExistsError:
        if _generation(bucket, key) != generation:
            msg = f"{key} is there, of another generation or another program."
            raise UsageError(msg, "Give each generation a name of its own, by `export.success`.") from None
        news = False
    bucket.delete([period.marker])
    return news


def _generation(bucket: Bucket, key: str) -> int | None:
    with contextlib.suppress(ObjectMissingError, ValueError):
        found = json.loads(bucket.get(key))
        return found.get("generation") if isinstance(found, dict) else None
    return None


def _open(stream: str, generation: int, prefix: str) -> str:
    return f"{keys.export(stream, generation, prefix)}open/"
