"""What the bucket tells of a stream's ingest: which topics, which plans, which sources. Names first, objects next.

Source: the design, "Ingest: trace". A plan's first offset is in its key, and the next one's is its end: a listing alone
tells which plans a range of offsets concerns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from drystone import ulids
from drystone.block import keys
from drystone.bucket.protocol import Bucket
from drystone.errors import InputError, ObjectMissingError
from drystone.ingest.kafka.plans import Done, Plan, Root, Slice, Slices

_NAME = re.compile(r"(\d{20})(?:\.(\d+))?(\.json|\.slices\.json|\.done)")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Committed:
    """A plan whose rows are in blocks, and what it came to."""

    plan: Plan
    slices: Slices


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt at a plan, as its keys tell: whether it was decided, and when its slices were written (ms)."""

    key: str
    start: int
    number: int
    done: bool
    sliced: int | None


@dataclass(frozen=True, slots=True)
class Records:
    """The plans of a stream of one generation."""

    bucket: Bucket
    stream: str
    generation: int

    def roots(self) -> list[Root]:
        """Return every topic that the stream has met, by UUID; one that was made again is there twice."""
        found = (self.root(topic_id) for topic_id in self.topic_ids())
        return [root for root in found if root is not None]

    def root(self, topic_id: str) -> Root | None:
        """Return where a topic's chains begin, None if nobody has said it."""
        return self._read(keys.kafka_root(self.stream, self.generation, topic_id), Root)

    def topic_ids(self) -> list[str]:
        """Return the UUID of every topic that the stream has met."""
        prefix = keys.kafka_topics(self.stream, self.generation)
        found: list[str] = []
        after = ""
        while (first := next(self.bucket.list(prefix, after), None)) is not None:
            found.append(first.key.removeprefix(prefix).partition("/")[0])
            # "0" follows "/": the next listing begins behind everything in this folder.
            after = f"{prefix}{found[-1]}0"
        return found

    def partitions(self, topic_id: str) -> list[int]:
        """Return the partitions of a topic that have plans."""
        prefix = keys.kafka_topic(self.stream, self.generation, topic_id)
        found, after = [], ""
        while (first := next(self.bucket.list(prefix, after), None)) is not None:
            folder, slash, _ = first.key.removeprefix(prefix).partition("/")
            after = f"{prefix}{folder}0" if slash else first.key
            if slash and folder.isdecimal():
                found.append(int(folder))
        return sorted(found)

    def committed(self, topic_id: str, partition: int, low: int = 0, high: int | None = None) -> Iterator[Committed]:
        """Yield the committed plans that have offsets in [low, high), by offset; `high` None: all from `low` on."""
        plans = [(start, list(attempts)) for start, attempts in groupby(self._attempts(topic_id, partition), _start)]
        ends = [later for _, (later, _) in pairwise(plans)]
        for (start, attempts), end in zip(plans, [*ends, None], strict=True):
            if (end is None or end > low) and (high is None or start < high):
                found = self._committed(attempts)
                if found is not None and found.plan.end > low:
                    yield found

    def bad(self, topic_id: str, partition: int) -> int:
        """Return how many messages of a partition could not be parsed when they were ingested."""
        found = (self._read(f"{each.key}.done", Done) for each in self._attempts(topic_id, partition) if each.done)
        return sum(done.bad for done in found if done is not None and done.outcome == "committed")

    def of_sources(self, sources: Iterable[str]) -> dict[str, tuple[Plan, Slice]]:
        """Return the plan and the slice of each of these sources; one that is of no plan is left out.

        A source carries the time of its plan, and so does, about, the object that names it: that is looked at first.
        """
        wanted = set(sources)
        times = {source: ulids.time_of(source) for source in wanted}
        found: dict[str, tuple[Plan, Slice]] = {}

        def distance(each: _Attempt) -> int:
            return min(abs((each.sliced or 0) - time) for time in times.values())

        every = [
            each
            for root in (self.roots() if wanted else ())
            for partition in self.partitions(root.topic_id)
            for each in self._attempts(root.topic_id, partition)
            if each.sliced is not None
        ]
        for each in sorted(every, key=distance):
            if not wanted:
                break
            plan, slices = self._read(f"{each.key}.json", Plan), self._read(f"{each.key}.slices.json", Slices)
            for part in slices.slices if slices is not None and plan is not None else ():
                if part.source in wanted and plan is not None:
                    found[part.source] = (plan, part)
                    wanted.remove(part.source)
        return found

    def _attempts(self, topic_id: str, partition: int) -> list[_Attempt]:
        """Return all attempts at plans of a partition, by first offset and number."""
        prefix = f"{keys.kafka_topic(self.stream, self.generation, topic_id)}{partition}/"
        kinds: dict[tuple[int, int], dict[str, int]] = {}
        for each in self.bucket.list(prefix):
            name = _NAME.fullmatch(each.key.removeprefix(prefix))
            if name is not None:
                kinds.setdefault((int(name[1]), int(name[2] or 0)), {})[name[3]] = each.modified
        where = (self.stream, self.generation, topic_id, partition)
        return [
            _Attempt(keys.kafka_plan(*where, start, number), start, number, ".done" in own, own.get(".slices.json"))
            for (start, number), own in sorted(kinds.items())
            if ".json" in own
        ]

    def _committed(self, attempts: Iterable[_Attempt]) -> Committed | None:
        for each in sorted(attempts, key=lambda attempt: -attempt.number):
            done = self._read(f"{each.key}.done", Done) if each.done else None
            if done is None or done.outcome != "committed":
                continue
            plan, slices = self._read(f"{each.key}.json", Plan), self._read(f"{each.key}.slices.json", Slices)
            if plan is None or slices is None:
                raise InputError(f"{each.key}.done is there without its plan.", "Restore the plan and its slices.")
            return Committed(plan, slices)
        return None

    def _read(self, key: str, model: type[M]) -> M | None:
        try:
            return model.model_validate_json(self.bucket.get(key))
        except ObjectMissingError:
            return None
        except ValidationError as error:
            raise InputError(f"{key} cannot be read: {error.errors()[0]['msg']}.", "Restore the object.") from None


def _start(attempt: _Attempt) -> int:
    return attempt.start


def slices_of(committed: Iterable[Committed]) -> Mapping[str, tuple[Plan, Slice]]:
    """Return every slice of these plans, by source."""
    return {part.source: (each.plan, part) for each in committed for part in each.slices.slices}
