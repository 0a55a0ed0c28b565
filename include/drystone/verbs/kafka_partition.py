"""One partition's part in an ingest run: what its chain needs next, until there is a plan whose messages must be read.

Source: the design, "Ingest: from Kafka". Nothing is waited for: where another run is faster, this one looks again, and
soon leaves the partition to it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from drystone.clock import Clock
from drystone.config.ingest import KafkaIngest
from drystone.errors import BucketError, DrystoneError, GivenUpError, InvariantError, LostMessagesError
from drystone.ingest.kafka.chain import Chain, GivenUp, Next, Unfinished
from drystone.ingest.kafka.log import Log, Offsets, Partition, Sample
from drystone.ingest.kafka.plans import Done, Plan, Slices
from drystone.ingest.kafka.policy import due

_TURNS = 8
"""How often a partition may look again: each time another run was faster, or one step was taken."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for all partitions of a run.

    `parser`: its digest, "" for a backup. `present`: which sources have a whole block. `account`: logs the blocks of
    slices that another run uploaded, and perhaps did not live to log. `lose`: logs a plan of what is lost.
    """

    policy: KafkaIngest
    parser: str
    force: bool
    accept_gap: bool
    run: str
    clock: Clock
    log: Log
    present: Callable[[], frozenset[str]]
    account: Callable[[Slices], None]
    lose: Callable[[Plan], None]


@dataclass
class Share:
    """A partition of a topic in one run. `there`: its offsets when the run began.

    `gone`: why the topic cannot be read any more; then there is only to finish what can be, or to record the loss.
    `position`: everything before it is committed; None until the run knows. `idle`: nothing is due here. `waiting`:
    when the oldest message was written (ms) that is in no block. `resumed`: the plan at hand is not of this run's
    making. `error`: why the run left the partition.
    """

    chain: Chain
    rules: Rules
    there: Offsets
    gone: str = ""
    position: int | None = None
    idle: bool = False
    waiting: int | None = None
    done: list[tuple[Plan, Done]] = field(default_factory=list)
    given_up: list[Plan] = field(default_factory=list)
    resumed: bool = False
    error: DrystoneError | None = None
    _overtaken: int = 0

    @property
    def place(self) -> Partition:
        """The partition's name."""
        return Partition(self.chain.root.topic, self.chain.partition)

    @property
    def ended(self) -> bool:
        """Whether the run has nothing more to do here."""
        return self.idle or self.error is not None

    @property
    def open(self) -> Offsets:
        """What is in no block: of that not each offset has a message."""
        start = self.there.start if self.position is None else max(self.position, self.there.start)
        return Offsets(start, max(start, self.there.end))

    def unfinished(self) -> Plan | None:
        """Take the chain on, until there is a plan to read messages for, or none: then `open` is to be planned.

        Raises LostMessagesError where Kafka has deleted what should be read next, unless that is accepted.
        """
        for _ in range(_TURNS):
            match self.chain.position():
                case GivenUp(plan):
                    self._give_up(plan, "a run ended before it planned again", self._again(plan))
                case Unfinished(plan):
                    self.position = plan.start
                    if self._must_be_read(plan):
                        self.resumed = True
                        return plan
                case Next(start):
                    self.position = start
                    if self.gone or start >= self.there.start:
                        self.idle = bool(self.gone) or self._all_planned(start)
                        return None
                    lost = self._lost(start, self.there.start, "which are in no plan yet")
                    self.chain.plan(self._made(start, self.there.start, lost, gap=True))
        raise self._beaten()

    def plan(self, sample: Sample) -> Plan | None:
        """Return a new plan of what is open, None if nothing is due, or another run was faster: then look again."""
        wanted = self.wanted(sample)
        if wanted is None:
            self.idle = True
            return None
        if self.chain.plan(wanted) == wanted:
            self.resumed = False
            return wanted
        self._overtaken += 1
        if self._overtaken == _TURNS:
            raise self._beaten()
        return None

    def wanted(self, sample: Sample) -> Plan | None:
        """Return the plan that what is open asks for, by this sample of it; None if nothing is due."""
        found = due(self.open, sample, self.rules.policy, self.rules.clock(), force=self.rules.force)
        self.waiting = sample.oldest
        return None if found is None else self._made(self.open.start, found.end, found.reason)

    def peek(self) -> Plan | None:
        """Return the plan that is unfinished, if there is one, and do nothing."""
        match self.chain.position():
            case Next(start):
                self.position = start
                if start < self.there.start:
                    self._lost(start, self.there.start, "which are in no plan yet")
                return None
            case GivenUp(plan) | Unfinished(plan):
                self.position = plan.start
                slices = self.chain.slices(plan)
                if self.gone and not plan.gap and (slices is None or not self._all_there(slices)):
                    self._lost(plan.start, plan.end, f"of the unfinished plan {plan}")
                return plan

    def commit(self, plan: Plan, slices: Slices) -> None:
        """Say that all of a plan is in blocks; raise GivenUpError if another run has given it up."""
        rules = self.rules
        rows = sum(each.rows for each in slices.slices if each.stream == plan.stream)
        mine = Done(
            outcome="committed",
            attempt=plan.attempt,
            run=rules.run,
            time=rules.clock(),
            rows=rows,
            bad=slices.bad,
            slices=len(slices.slices),
            reason=plan.reason,
        )
        held = self.chain.commit(plan, mine)
        if held.outcome == "abandoned":
            msg = f"plan {plan} was given up by run {held.run}: {held.reason}."
            raise GivenUpError(msg, "What was uploaded of it is retired; the next run goes on.")
        self.position = plan.end
        # What waited is in blocks; what comes after it is looked at when it is planned.
        self.waiting = None
        self.done.append((plan, held))

    def complete_empty(self, plan: Plan) -> None:
        """Commit a plan for which no message came; raise InvariantError if Kafka has one."""
        found = self.rules.log.samples({self.place: Offsets(plan.start, plan.end)})[self.place]
        slices = self.chain.nothing(plan)
        if found.messages or slices.messages:
            raise InvariantError(f"plan {plan} has messages, and none was read.", "Please report this.")
        self.commit(plan, slices)

    def _must_be_read(self, plan: Plan) -> bool:
        """Tell whether an unfinished plan's messages must be read, and can be; if not, take a step past it."""
        slices = self.chain.slices(plan)
        first = plan.end if self.gone else self.there.start
        if plan.gap:
            self.rules.lose(plan)
            self.commit(plan, self.chain.nothing(plan))
        elif slices is not None and self._all_there(slices):
            self.rules.account(slices)
            self.commit(plan, slices)
        elif plan.start < first:
            lost = self._lost(plan.start, first, f"of the unfinished plan {plan}")
            successor = self._made(plan.start, first, lost, attempt=plan.attempt + 1, gap=True)
            self._give_up(plan, lost, successor)
        elif plan.parser != self.rules.parser:
            self._give_up(plan, "the parser has changed", self._again(plan))
        else:
            return True
        return False

    def _all_there(self, slices: Slices) -> bool:
        return {each.source for each in slices.slices} <= (self.rules.present() if slices.slices else frozenset())

    def _give_up(self, plan: Plan, reason: str, successor: Plan) -> None:
        rules = self.rules
        mine = Done(outcome="abandoned", attempt=plan.attempt, run=rules.run, time=rules.clock(), reason=reason)
        if self.chain.give_up(plan, mine, successor, rules.run).outcome == "abandoned":
            self.given_up.append(plan)

    def _again(self, plan: Plan) -> Plan:
        return self._made(plan.start, plan.end, plan.reason, attempt=plan.attempt + 1)

    def _made(self, start: int, end: int, reason: str, *, attempt: int = 0, gap: bool = False) -> Plan:
        chain = self.chain
        return Plan(
            stream=chain.stream,
            generation=chain.generation,
            topic=chain.root.topic,
            topic_id=chain.root.topic_id,
            partition=chain.partition,
            start=start,
            end=end,
            planned_at=self.rules.clock(),
            parser=self.rules.parser,
            attempt=attempt,
            reason=reason,
            gap=gap,
        )

    def _lost(self, start: int, end: int, where: str) -> str:
        """Return the words for offsets [start, end) that are gone; raise LostMessagesError if that is not accepted."""
        what = f"offsets {start} to {end - 1} of {self.place}, {where}"
        lost = f"{self.gone}: {what}, cannot be read" if self.gone else f"Kafka has deleted {what}"
        if not self.rules.accept_gap:
            back = "Let it be seen (ingest.topics, rights), if it is there," if self.gone else "Restore them there,"
            raise LostMessagesError(f"{lost}.", f"{back} or run once with accept_gap, which records the loss.")
        return lost

    def _all_planned(self, start: int) -> bool:
        """Tell whether nothing is left to plan; a log that seems to end before `start` must have grown meanwhile."""
        if start > self.there.end:
            end = self.rules.log.offsets([self.place])[self.place].end
            if end < start:
                msg = f"{self.place} ends at offset {end}, and offsets before {start} are in blocks: its log was cut."
                raise InvariantError(msg, "Delete the topic and make it again: then it is another one.")
        return start >= self.there.end

    def _beaten(self) -> DrystoneError:
        msg = f"{self.place}: another run is at it, or the store does not show yet what was written."
        return BucketError(msg, "The next run goes on.")
