"""The export verb: what is committed and not exported yet, plan by plan on the workers; then the finished periods.

Source: the design, "Ingest: formats". A plan is exported as a whole once all its blocks are ready, and each of its
messages into one file. A plan that fails stops no other one; the run fails at its end.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from drystone.block import keys
from drystone.config.export import ExportConfig
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.errors import DrystoneError, ObjectExistsError, ObjectMissingError, UsageError
from drystone.ingest.export import periods
from drystone.ingest.export.committed import Committed, Partition, partitions
from drystone.ingest.export.finding import Finder
from drystone.ingest.export.left import Left, Reached
from drystone.ingest.export.records import ExportHead, ExportRecord, Shape, plan_key, read
from drystone.ingest.export.task import Exported, Exporter, ExportTask
from drystone.ingest.formats.layout import PERIODS
from drystone.ingest.kafka.plans import Slices
from drystone.jobs import ExportRequest
from drystone.reader.view import look

LookAtKafka = Callable[[], contextlib.AbstractContextManager[Left]]
"""Tells what is not exported because it is not ingested."""
_ROUND = 4
"""Plans for each task slot that are worked on after one look at the stream."""


def run(job: Job, request: ExportRequest, kafka: LookAtKafka) -> Outcome:
    """Export what the request names; what is there already is left as it is."""
    config = job.config.kafka.export
    if config is None:
        raise UsageError(f"stream {job.stream} has no export.", "Give it one: `ingest.export` in the configuration.")
    if request.topics is not None:
        try:
            re.compile(request.topics)
        except re.error as error:
            raise UsageError(f"topics: {request.topics!r} is no regular expression: {error}.") from None
    return ExportRun(job, request, config).run(kafka)


@dataclass
class Chain:
    """A partition, and the committed plans that this run looks at: from the first on that is not exported, or all."""

    partition: Partition
    start: int
    plans: list[Committed]
    left: set[int]
    """Where plans begin that are not exported."""

    @property
    def end(self) -> int:
        """The offset behind the last committed plan."""
        return self.plans[-1].plan.end if self.plans else self.start

    @property
    def exported_to(self) -> int:
        """The offset before which everything is exported."""
        return min(self.left, default=self.end)


@dataclass
class ExportRun:
    """One run of an export."""

    job: Job
    request: ExportRequest
    config: ExportConfig
    done: list[Exported] = field(default_factory=list)
    waiting: int = 0
    finished: list[str] = field(default_factory=list)
    late: int = 0
    failures: list[str] = field(default_factory=list)
    retryable: bool = False

    def run(self, kafka: LookAtKafka) -> Outcome:
        """Do it, and return what was done."""
        if self.job.dry_run:
            return self._intended(self._chains())
        if self.config.success is None or self.config.split not in PERIODS:
            self._export(self._chains())
            return self._outcome()
        with contextlib.ExitStack() as stack:
            # Kafka first: what it has now is in a plan or waits, and what comes later is younger than this moment.
            try:
                left = stack.enter_context(kafka())
            except DrystoneError as error:
                self._failed(f"no period was finished: {error}", retryable=error.retryable)
                left = None
            chains = self._chains()
            self._export(chains)
            if left is not None:
                self._finish(left, chains)
        return self._outcome()

    def _chains(self) -> list[Chain]:
        return [self._chain(each) for each in partitions(self.job.bucket, self.job.stream, self.job.config.generation)]

    def _chain(self, partition: Partition) -> Chain:
        begin = partition.root.start(partition.number)
        head = read(self.job.bucket, self._head_key(partition), ExportHead)
        start = begin if head is None or self.request.again else head.start
        plans = list(partition.committed(start))
        left = {each.plan.start for each in plans if not self._is_done(each)}
        return Chain(partition, start, plans, left)

    def _is_done(self, committed: Committed) -> bool:
        try:
            self.job.bucket.head(f"{plan_key(committed.plan, self.config.prefix)}.done")
        except ObjectMissingError:
            return False
        return True

    def _wanted(self, chains: Sequence[Chain]) -> list[tuple[Chain, Committed]]:
        pattern = self.request.topics
        return [
            (chain, each)
            for chain in chains
            if pattern is None or re.fullmatch(pattern, chain.partition.root.topic)
            for each in chain.plans
            if self.request.again or each.plan.start in chain.left
        ]

    def _export(self, chains: Sequence[Chain]) -> None:
        todo = self._wanted(chains)
        if not todo:
            return
        self._keep_record()
        step = _ROUND * self.job.workers.parallelism
        for begin in range(0, len(todo), step):
            self._round(todo[begin : begin + step])
        for chain in chains:
            if chain.exported_to > chain.start:
                head = ExportHead(start=chain.exported_to)
                self.job.bucket.put(self._head_key(chain.partition), head.to_json())

    def _round(self, todo: Sequence[tuple[Chain, Committed]]) -> None:
        """Export some plans, by what one look at the stream shows."""
        job = self.job
        view = look(job.bucket, job.stream, job.clock, job.tracker, job.config.generation)
        finder = Finder(view, Shape.of(self.config), job.config.compaction.memory_per_task)
        tasks: list[tuple[Chain, ExportTask]] = []
        for chain, committed in todo:
            try:
                task = finder.task(committed)
            except DrystoneError as error:
                self._failed(f"{committed.plan}: {error}", retryable=error.retryable)
                continue
            if task is None:
                self.waiting += 1
            else:
                tasks.append((chain, task))
        if not tasks:
            return
        results = job.workers.map(Exporter(job.run, job.workers.clock), [task for _, task in tasks])
        for (chain, _), result in zip(tasks, results, strict=True):
            if result.error:
                self._failed(result.error, retryable=result.retryable)
            else:
                chain.left.discard(result.plan.start)
                self.done.append(result)

    def _keep_record(self) -> None:
        """Let erasures know that there are copies, and where."""
        key = f"{keys.export(self.job.stream, self.job.config.generation, self.config.prefix)}export.json"
        with contextlib.suppress(ObjectExistsError):
            self.job.bucket.create(key, ExportRecord(prefix=self.config.prefix).to_json())

    def _finish(self, left: Left, chains: Sequence[Chain]) -> None:
        """Give finished periods their `_SUCCESS`."""
        job, prefix, name = self.job, self.config.prefix, self.config.success or ""
        opened = list(periods.open_periods(job.bucket, job.stream, job.config.generation, prefix))
        try:
            oldest = left.oldest([self._reached(chain) for chain in chains]) if opened else {}
            for period in opened:
                if not periods.is_finished(period, oldest.get(period.topic, periods.LONG_AGO), self.config.grace):
                    continue
                if periods.finish(job.bucket, period, prefix, name, job.config.generation):
                    self.finished.append(period.success_key(prefix, name))
                else:
                    self.late += 1
        except DrystoneError as error:
            self._failed(f"not every period was looked at: {error}", retryable=error.retryable)

    def _reached(self, chain: Chain) -> Reached:
        root, number = chain.partition.root, chain.partition.number
        return Reached(root.topic, root.topic_id, number, chain.end, self._oldest(chain))

    def _oldest(self, chain: Chain) -> int | None:
        """Return since when (ms) there may be messages that are committed and not exported; None: there is none."""
        found: list[int] = []
        for each in chain.plans:
            if each.plan.start not in chain.left:
                continue
            slices = read(self.job.bucket, each.plan.slices_key, Slices)
            if slices is None:
                return periods.LONG_AGO
            own = (part for part in slices.slices if part.stream == each.plan.stream and not part.unknown)
            found += [part.chunk_start for part in own]
        return min(found, default=None)

    def _head_key(self, partition: Partition) -> str:
        where = keys.export(partition.stream, partition.generation, self.config.prefix)
        return f"{where}{partition.root.topic_id}/{partition.number}/head.json"

    def _failed(self, why: str, *, retryable: bool) -> None:
        self.failures.append(why)
        self.retryable |= retryable

    def _intended(self, chains: Sequence[Chain]) -> Outcome:
        todo = [committed.plan for _, committed in self._wanted(chains)]
        report = [
            f"Would export {len(todo)} plans, those of them whose blocks are ready:",
            *(f"* {each}" for each in todo),
        ]
        return Outcome(summary={"plans": len(todo)}, report=report)

    def _outcome(self) -> Outcome:
        files = [file for each in self.done for file in each.files]
        summary: dict[str, int | str] = {
            "plans": len(self.done),
            "plans_waiting": self.waiting,
            "plans_failed": len(self.failures),
            "files": len(files),
            "files_new": sum(each.new for each in self.done),
            "messages": sum(file.rows for file in files),
            "bytes": sum(file.bytes for file in files),
            "periods_finished": len(self.finished),
            "periods_late": self.late,
        }
        what = f"{summary['messages']:,} messages of {len(self.done)} plans in {len(files)} files"
        waiting = f"{self.waiting} plans wait until their blocks are ready."
        report = [f"{what}, {summary['files_new']} of them new; {waiting}"]
        report += [f"* finished: {key}" for key in self.finished]
        if self.late:
            report.append(f"{self.late} finished periods got files that came late.")
        return Outcome(summary=summary, report=report, failures=self.failures, retryable=self.retryable)
