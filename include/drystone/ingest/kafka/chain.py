"""A partition's chain of plans in the bucket: where it stands, and the steps that take it on.

Source: the design, "Ingest: from Kafka". Every object is create-only: of runs that try the same at once one creates it,
and the others go by what it says. The chain is walked by keys that are known, for the next plan has its first offset in
its name; an object that a reader cannot see yet shows itself when it cannot be created. See
docs/decisions/012-one-key-decides.md.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from drystone.block import keys
from drystone.block.edits import Retire, edit_id
from drystone.bucket.protocol import Bucket
from drystone.errors import InputError, ObjectExistsError, ObjectMissingError
from drystone.ingest.kafka.plans import Done, Head, Plan, Root, Slices

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Next:
    """Everything before this offset is in blocks, or recorded as lost: the next plan begins here."""

    start: int


@dataclass(frozen=True, slots=True)
class Unfinished:
    """A plan of which nobody has said what became of it."""

    plan: Plan


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A plan that was given up, by a run that has not planned its offsets anew."""

    plan: Plan


Position = Next | Unfinished | GivenUp


@dataclass(frozen=True, slots=True)
class Ground:
    """Where the chains of a stream's generation lie."""

    bucket: Bucket
    stream: str
    generation: int

    def root(self, mine: Root) -> Root:
        """Return where the topic's chains begin: as `mine` has it, if nobody has said it before."""
        return self.known_root(mine.topic_id) or create(self.bucket, self._root_key(mine.topic_id), mine)

    def known_root(self, topic_id: str) -> Root | None:
        """Return where the topic's chains begin, None if nobody has said it."""
        return read(self.bucket, self._root_key(topic_id), Root)

    def chain(self, root: Root, partition: int) -> Chain:
        """Return the chain of one of the topic's partitions."""
        return Chain(self.bucket, self.stream, self.generation, root, partition)

    def _root_key(self, topic_id: str) -> str:
        return keys.kafka_root(self.stream, self.generation, topic_id)


@dataclass(frozen=True, slots=True)
class Chain:
    """One partition's plans."""

    bucket: Bucket
    stream: str
    generation: int
    root: Root
    partition: int

    def position(self) -> Position:
        """Return where the chain stands."""
        start = self._known()
        while True:
            plan = self._plan(start)
            if plan is None:
                return Next(start)
            found = self._outcome(plan)
            if not isinstance(found, Next):
                return found
            start = found.start

    def plan(self, plan: Plan) -> Plan:
        """Plan these offsets, and return the plan that holds: another run's, if that was faster."""
        return create(self.bucket, plan.plan_key, plan)

    def slices(self, plan: Plan) -> Slices | None:
        """Return what the plan's messages came to, None if nobody has said it."""
        return read(self.bucket, plan.slices_key, Slices)

    def nothing(self, plan: Plan) -> Slices:
        """Say that the plan comes to nothing, and return what holds: somebody may have come to something."""
        return create(self.bucket, plan.slices_key, Slices(attempt=plan.attempt, slices=(), messages=0, bad=0))

    def done(self, plan: Plan) -> Done | None:
        """Return what became of the plan, None if that is open."""
        return read(self.bucket, plan.done_key, Done)

    def commit(self, plan: Plan, done: Done) -> Done:
        """Say that every slice of the plan is in a block, and return what holds: another run may have given it up."""
        return create(self.bucket, plan.done_key, done)

    def give_up(self, plan: Plan, done: Done, successor: Plan, author: str) -> Done:
        """Abandon the plan for `successor`, and return what holds: another run may have committed it.

        Doing it again, or where another run stopped, ends in the same. The plan of the next attempt may be another one
        than `successor` then.
        """
        held = create(self.bucket, plan.done_key, done)
        if held.outcome == "abandoned":
            self._retire(plan, held, author)
            create(self.bucket, successor.plan_key, successor)
        return held

    def keep_head(self, start: int) -> None:
        """Note that everything before `start` is committed, so that a walk can begin there."""
        if start > self._known():
            self.bucket.put(self._head_key, Head(start=start).to_json())

    def _retire(self, plan: Plan, done: Done, author: str) -> None:
        """Take away what was uploaded of an abandoned plan, and whatever a run that went to sleep uploads later."""
        for stream, sources in self.nothing(plan).sources().items():
            edit = Retire(
                id=edit_id(stream, "retire", *sources),
                reason=f"plan {plan} was given up: {done.reason}",
                author=author,
                time=done.time,
                sources=sources,
            )
            # The id follows from the sources: what is there retires them.
            with contextlib.suppress(ObjectExistsError):
                self.bucket.create(keys.edit(stream, edit.id), edit.to_json())

    def _outcome(self, plan: Plan) -> Position:
        while True:
            done = self.done(plan)
            if done is None:
                return Unfinished(plan)
            if done.outcome == "committed":
                return Next(plan.end)
            later = self._plan(plan.start, plan.attempt + 1)
            if later is None:
                return GivenUp(plan)
            plan = later

    def _plan(self, start: int, attempt: int = 0) -> Plan | None:
        where = (self.stream, self.generation, self.root.topic_id, self.partition, start, attempt)
        return read(self.bucket, f"{keys.kafka_plan(*where)}.json", Plan)

    @property
    def _head_key(self) -> str:
        return keys.kafka_head(self.stream, self.generation, self.root.topic_id, self.partition)

    def _known(self) -> int:
        head = read(self.bucket, self._head_key, Head)
        return self.root.start(self.partition) if head is None else head.start


def read(bucket: Bucket, key: str, model: type[M]) -> M | None:
    """Return an object, None if there is none (to be seen); raise InputError if it cannot be read."""
    try:
        return model.model_validate_json(bucket.get(key))
    except ObjectMissingError:
        return None
    except ValidationError as error:
        msg = f"{key} cannot be read: {error.errors()[0]['msg']}."
        raise InputError(msg, "Ingest of this partition stops until it can be: restore the object.") from None


W = TypeVar("W", Root, Plan, Slices, Done)


def create(bucket: Bucket, key: str, mine: W) -> W:
    """Write an object if nobody has, and return the one that is there.

    Raises ObjectMissingError if there is one that cannot be seen yet: going on with one's own would fork the chain.
    """
    try:
        bucket.create(key, mine.to_json())
    except ObjectExistsError:
        there = read(bucket, key, type(mine))
        if there is None:
            raise ObjectMissingError(key) from None
        return there
    return mine
