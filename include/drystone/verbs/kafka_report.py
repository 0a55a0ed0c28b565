"""What an ingest from Kafka tells: the table of partitions, the sums, and the error that the run ends with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from drystone.config.durations import format_duration
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.errors import DrystoneError, LagError
from drystone.ingest.kafka.build import BuiltPlan
from drystone.ingest.kafka.log import Log
from drystone.verbs.kafka_partition import Share


@dataclass
class Told:
    """What a run did: its partitions, what was built, and what went wrong beside them."""

    job: Job
    shares: Sequence[Share]
    built: list[BuiltPlan] = field(default_factory=list)
    problem: DrystoneError | None = None

    def outcome(self) -> Outcome:
        """Return what was done, with the error of a partition that failed, or of messages that wait too long."""
        blocks = [each for plan in self.built for each in plan.slices if each.ulid]
        mine = [each.ulid for each in blocks if each.stream == self.job.stream]
        others: dict[str, list[str]] = {}
        for each in blocks:
            if each.stream != self.job.stream:
                others.setdefault(each.stream, []).append(each.ulid)
        return Outcome(
            summary=self._sums() | {"blocks": len(blocks), "bytes": sum(each.bytes for each in blocks)},
            blocks=mine,
            other_blocks=others,
            report=[*self._table(), *self._events()],
            verdict=self._failure() or self._late() or self.problem,
        )

    def intended(self, log: Log) -> Outcome:
        """Return what a run would do first in each partition, and do nothing."""
        lines = [*_HEAD_INTENDED]
        plans = 0
        for each in self.shares:
            try:
                plan = each.peek()
                if plan is None:
                    plan = each.wanted(log.samples({each.place: each.open})[each.place])
                what = "nothing is due" if plan is None else f"{plan.reason}: {plan.end - plan.start:,} offsets"
                plans += plan is not None
            except DrystoneError as error:
                each.error = error
                what = str(error)
            lines.append(f"| {each.place} | {each.position} | {each.there.end} | {what} |")
        return Outcome(summary={"partitions": len(self.shares), "plans": plans}, report=lines, verdict=self._failure())

    def _sums(self) -> dict[str, int | str]:
        done = [done for each in self.shares for _, done in each.done]
        return {
            "partitions": len(self.shares),
            "plans": len(done),
            "rows": sum(each.rows for each in done),
            "dead_letters": sum(each.bad for each in done),
            "given_up": sum(len(each.given_up) for each in self.shares),
            "gaps": sum(plan.gap for each in self.shares for plan, _ in each.done),
            "lag_offsets": sum(_lag(each) for each in self.shares),
            "lag_ms": max((self._age(each) for each in self.shares), default=0),
        }

    def _age(self, share: Share) -> int:
        return 0 if share.waiting is None else max(0, self.job.clock() - share.waiting)

    def _table(self) -> Iterator[str]:
        yield from _HEAD
        for each in self.shares:
            rows = sum(done.rows for _, done in each.done)
            bad = sum(done.bad for _, done in each.done)
            start = each.done[0][0].start if each.done else each.position
            age = format_duration(self._age(each) // 1000 * 1000)
            numbers = f"{start} | {each.position} | {rows:,} | {bad:,} | {_lag(each):,} | {age}"
            yield f"| {each.place} | {numbers} |"

    def _events(self) -> Iterator[str]:
        for each in self.shares:
            yield from (f"* gave up {plan}" for plan in each.given_up)
            yield from (f"* recorded as lost: {plan}: {plan.reason}" for plan, _ in each.done if plan.gap)
            if each.error is not None:
                yield f"* {each.place} failed: {each.error}"
        if self.problem is not None:
            yield f"* notes were not left: {self.problem}"

    def _failure(self) -> DrystoneError | None:
        failed = [each.error for each in self.shares if each.error is not None]
        if not failed:
            return None
        # Of several the one that needs a person.
        first = min(failed, key=lambda error: error.retryable)
        if len(failed) > 1:
            first.message += f" {len(failed) - 1} more partitions failed, too; the report names them."
        return first

    def _late(self) -> DrystoneError | None:
        limit = self.job.config.kafka.max_lag
        oldest = max(self.shares, key=self._age)
        if limit is None or self._age(oldest) <= limit:
            return None
        age = format_duration(self._age(oldest) // 1000 * 1000)
        msg = f"a message of {oldest.place} waits since {age}, and max_lag is {format_duration(limit)}."
        return LagError(msg, "See whether runs are frequent and fast enough; what could be uploaded was.")


def _lag(share: Share) -> int:
    return share.open.end - share.open.start


_HEAD = ("| partition | from | to | rows | dead letters | offsets waiting | oldest |", "|---|---|---|---|---|---|---|")
_HEAD_INTENDED = ("| partition | at | end | next |", "|---|---|---|---|")
