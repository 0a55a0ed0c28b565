"""The upload verb of a stream from Kafka, less the reading of messages: plan, have built, commit, tell.

Source: the design, "Ingest: from Kafka". A run takes on what was pending when it began, one plan of each partition at a
time, until nothing of that is due. A partition that fails stops no other one; the run fails at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from drystone.block.folder import Folder
from drystone.config.model import StreamConfig
from drystone.engine.audit import Entry, append
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.record import apply_config
from drystone.errors import DrystoneError, ObjectMissingError, UsageError
from drystone.ingest.blocks import sources_of
from drystone.ingest.kafka.answers import Answer, Refused
from drystone.ingest.kafka.chain import Ground
from drystone.ingest.kafka.log import Log, Offsets, Partition, Topic
from drystone.ingest.kafka.plans import Plan, Root, Slices
from drystone.ingest.kafka.records import Records
from drystone.jobs import UploadRequest
from drystone.tracker import Tracker
from drystone.verbs.kafka_gone import left_behind
from drystone.verbs.kafka_partition import Rules, Share
from drystone.verbs.kafka_report import Told

RunPlans = Callable[[Sequence[Plan], frozenset[str]], Sequence[Answer]]
"""Reads the messages of these plans, one of each partition at most, and uploads a block for each slice whose source is
not in the set. A plan without messages may be left without an answer."""


@dataclass(frozen=True)
class DeadStream:
    """The stream that takes what cannot be parsed."""

    name: str
    config: StreamConfig
    tracker: Tracker


@dataclass
class KafkaUpload:
    """One run of a stream's ingest. `parser`: its digest, "" for a backup; `dead`: the stream of its dead letters."""

    job: Job
    request: UploadRequest
    log: Log
    parser: str
    dead: DeadStream | None
    run_plans: RunPlans
    _seen: list[Folder] | None = field(default=None, init=False)

    def run(self) -> Outcome:
        """Do it, and return what was done; what failed is the outcome's verdict."""
        told = Told(self.job, self._discover())
        if self.job.dry_run:
            return told.intended(self.log)
        if self.dead is not None:
            apply_config(self.job.bucket, self.dead.name, self.dead.config)
        self.job.coordination.begin(self.job.run)
        while not all(share.ended for share in told.shares):
            todo = self._plan(told.shares)
            resumed = any(share.resumed for share, _ in todo)
            present = sources_of(self._there()) if resumed else frozenset()
            answers = self.run_plans([plan for _, plan in todo], present) if todo else []
            self._settle(todo, answers, told)
        self._leave_notes(told)
        return told.outcome()

    def _discover(self) -> list[Share]:
        job, pattern = self.job, self.job.config.kafka.topics
        ground = Ground(job.bucket, job.stream, job.config.generation)
        known = Records(job.bucket, job.stream, job.config.generation).topic_ids()
        topics, none = self._topics(pattern)
        rules = self._rules()
        left = left_behind(ground, known, topics, pattern)
        shares = [Share(chain, rules, Offsets(0, 0), gone=why) for chain, why in left]
        if none is not None and not shares:
            raise none
        offsets = self.log.offsets([Partition(topic.name, number) for topic in topics for number in topic.partitions])
        roots = {topic.name: self._root(ground, topic, offsets) for topic in topics}
        return [*(Share(ground.chain(roots[p.topic], p.number), rules, offsets[p]) for p in sorted(offsets)), *shares]

    def _topics(self, pattern: str) -> tuple[Sequence[Topic], UsageError | None]:
        """Return the stream's topics, or why there is none."""
        try:
            return self.log.topics(pattern), None
        except UsageError as error:
            return [], error

    def _rules(self) -> Rules:
        return Rules(
            policy=self.job.config.kafka,
            parser=self.parser,
            force=self.request.force,
            accept_gap=self.request.accept_gap,
            run=self.job.run,
            clock=self.job.clock,
            log=self.log,
            present=lambda: sources_of(self._there()),
            account=self._account,
            lose=lambda plan: self.job.audit("lose", {str(plan): plan.reason}),
        )

    def _root(self, ground: Ground, topic: Topic, offsets: Mapping[Partition, Offsets]) -> Root:
        which = 0 if self.job.config.kafka.start == "earliest" else 1
        starts = {number: offsets[Partition(topic.name, number)][which] for number in topic.partitions}
        mine = Root(topic=topic.name, topic_id=topic.id, starts=starts, planned_at=self.job.clock())
        return (ground.known_root(topic.id) or mine) if self.job.dry_run else ground.root(mine)

    def _there(self) -> list[Folder]:
        """Return what the stream, and that of its dead letters, held when the run first had to know."""
        if self._seen is None:
            trackers = [self.job.tracker] if self.dead is None else [self.job.tracker, self.dead.tracker]
            snapshots = [each.observe(self.job.clock()) for each in trackers]
            self._seen = [folder for snapshot in snapshots for folder in snapshot.folders.values()]
        return self._seen

    def _plan(self, shares: Sequence[Share]) -> list[tuple[Share, Plan]]:
        """Return the plans that messages are to be read for: the unfinished ones, and new ones of what is due."""
        todo = self._attempt(shares, lambda share: None if share.ended else share.unfinished())
        busy = {share.place for share, _ in todo}
        rest = [share for share in shares if not share.ended and share.place not in busy]
        samples = self.log.samples({share.place: share.open for share in rest}) if rest else {}
        return [*todo, *self._attempt(rest, lambda share: share.plan(samples[share.place]))]

    def _attempt(self, shares: Sequence[Share], find: Callable[[Share], Plan | None]) -> list[tuple[Share, Plan]]:
        """Return what is found for each, as far as something is; an error is that partition's own."""
        found = []
        for share in shares:
            try:
                plan = find(share)
            except DrystoneError as error:
                share.error = error
            else:
                found += [] if plan is None else [(share, plan)]
        return found

    def _settle(self, todo: Sequence[tuple[Share, Plan]], answers: Sequence[Answer], told: Told) -> None:
        """Commit what was built; a partition whose plan was refused, or given up by another run, is left."""
        found = {(each.topic, each.partition): each for each in answers}
        for share, plan in todo:
            try:
                self._commit(share, plan, found.get(share.place), told)
            except DrystoneError as error:
                share.error = error

    def _commit(self, share: Share, plan: Plan, answer: Answer | None, told: Told) -> None:
        if isinstance(answer, Refused):
            raise answer.error
        if answer is None:
            share.complete_empty(plan)
            return
        told.built.append(answer)
        new = [each for each in answer.slices if each.ulid]
        self._audit({(each.stream, each.ulid): each.source for each in new})
        slices = share.chain.slices(plan)
        if slices is None:
            raise ObjectMissingError(plan.slices_key)
        if share.resumed:
            self._account(slices)
        self.job.coordination.commit([each.ulid for each in new])
        share.commit(plan, slices)

    def _account(self, slices: Slices) -> None:
        """Log the blocks of slices that were there before this run: whose uploader may not have lived to do it."""
        if not slices.slices:
            return
        whole = (each for each in self._there() if each.loadable and len(each.sources) == 1)
        alone = {next(iter(each.sources)): each.ulid for each in whole}
        self._audit({(each.stream, alone[each.source]): each.source for each in slices.slices if each.source in alone})

    def _audit(self, blocks: Mapping[tuple[str, str], str]) -> None:
        """Log uploads: the source of each block, by its stream and ULID."""
        now, run = self.job.clock(), self.job.run
        for stream in dict.fromkeys(stream for stream, _ in blocks):
            mine = {ulid: source for (owner, ulid), source in blocks.items() if owner == stream}
            lines = (Entry("upload", ulid, f"source {source}", run, now) for ulid, source in mine.items())
            append(self.job.bucket, stream, lines, now)

    def _leave_notes(self, told: Told) -> None:
        """Note how far each chain is, here and in Kafka, and see what still waits. Nothing depends on it."""
        try:
            for share in told.shares:
                if share.done and share.position is not None:
                    share.chain.keep_head(share.position)
            # A topic that was made again has the name of the one that is gone.
            here = {share.place: share for share in told.shares if not share.gone}
            left = {place: share.open for place, share in here.items() if share.error is not None}
            for place, sample in (self.log.samples(left) if left else {}).items():
                here[place].waiting = sample.oldest
            self.log.commit({place: share.position for place, share in here.items() if share.position is not None})
        except DrystoneError as error:
            told.problem = error
