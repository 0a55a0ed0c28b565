"""The backfill verb: without a plan it makes one, with one it carries out a batch of it.

Source: the design, "Ingest: backfill". A wrong range of messages is parsed anew with the parser that is configured now,
and the old rows are replaced, source by source, while ingest goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain

from drystone import ulids
from drystone.block.schema import Column, Schema
from drystone.config.load import Loaded
from drystone.config.model import StreamConfig
from drystone.engine.audit import Entry, append
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.plans import batch_of, batches_of, keep_plan, read_plan
from drystone.engine.record import apply_config, find_record, keep_schema
from drystone.engine.report import plan_lines
from drystone.errors import HeldError, InputError, UsageError
from drystone.ingest.backfill.choose import by_offsets, by_time, parse_range
from drystone.ingest.backfill.held import Reads
from drystone.ingest.backfill.refill import RefillOutput, RefillTask, Stream, refill
from drystone.ingest.backfill.roots import Root, Sources, roots_of
from drystone.ingest.kafka.broker import Broker
from drystone.ingest.kafka.log import Partition
from drystone.ingest.kafka.plans import Plan as IngestPlan
from drystone.ingest.kafka.records import Committed
from drystone.ingest.kafka.streams import KafkaStream, kafka_streams
from drystone.ingest.kafka.trace import reads_of
from drystone.ingest.origin import Target
from drystone.ingest.parsers.protocol import Parser
from drystone.ingest.parsers.registry import parser_of
from drystone.jobs import BackfillRequest
from drystone.plan.batches import cut_batches
from drystone.plan.model import Plan, Refill, Skip
from drystone.reader.located import Place
from drystone.reader.view import View, look


def run(job: Job, request: BackfillRequest, loaded: Loaded) -> Outcome:
    """Plan a backfill, or carry out a batch of one, with the streams and the parser of a configuration."""
    parser = parser_of(loaded.stream(job.stream), loaded.path.parent)
    return Backfill(job, request, kafka_streams(loaded), parser).run()


@dataclass
class Backfill:
    """One run. `streams`: all of the configuration that hold messages. `parser`: the one that is configured now."""

    job: Job
    request: BackfillRequest
    streams: Sequence[KafkaStream]
    parser: Parser

    def run(self) -> Outcome:
        """Plan what the request asks for, and keep the plan (not in a dry run); or carry out a batch of a plan."""
        job, request = self.job, self.request
        if request.plan_key is None:
            plan = self.plan()
            summary: dict[str, int | str] = {"actions": len(plan.actions), "left_alone": len(plan.skipped)}
            if job.dry_run:
                return Outcome(summary=summary, report=plan_lines(plan))
            key = keep_plan(job.bucket, plan)
            summary |= {"digest": plan.digest}
            return Outcome(summary=summary, plan_key=key, batches=batches_of(plan), report=plan_lines(plan))
        plan = read_plan(job.bucket, request.plan_key)
        if request.digest not in {None, plan.digest}:
            msg = f"plan {request.plan_key} is not the one that was shown: its digest is {plan.digest}."
            raise UsageError(msg, "Plan again.")
        if job.dry_run:
            return Outcome(summary={"actions": len(plan.batches[request.batch])}, report=plan_lines(plan))
        return self.carry_out(plan, request.batch)

    def plan(self) -> Plan:
        """Return the plan of the request; nothing is changed, and no row is read."""
        now = self.job.clock()
        found = list(self._chosen())
        here = self._in_kafka(found)
        refills = tuple(self._refill(each, here) for each in found)
        return Plan(
            id=ulids.new(now),
            stream=self.job.stream,
            kind="backfill",
            created=now,
            expires=now + self.job.times.plan_ttl,
            refills=refills,
            skipped=() if refills else (Skip(name=self.job.stream, reason="no plan of this range has messages"),),
            batches=cut_batches([each.rows for each in refills], self.request.batches),
        )

    def carry_out(self, plan: Plan, batch: int) -> Outcome:
        """Carry out one batch, from what is in the bucket now; what was done before is passed over.

        One ingest plan that fails leaves the others alone. Raises PlanExpiredError, and UsageError if the parser is not
        the one that was planned with.
        """
        plan.check(self.job.clock())
        actions = [action for action in batch_of(plan, batch) if isinstance(action, Refill)]
        if any(action.parser != self.parser.digest for action in actions):
            raise UsageError(f"the parser has changed since plan {plan.id} was made.", "Plan again.")
        self.job.coordination.begin(self.job.run)
        assert self._targets  # noqa: S101 - what is looked at next must have its record
        tasks, refused = self._tasks(plan, actions)
        outputs = [*refused, *self.job.workers.map(refill, tasks)] if tasks else refused
        mine = [ulid for output in outputs for stream, ulid, _ in output.blocks if stream == self.job.stream]
        self.job.coordination.commit(mine)
        self._audit(outputs, plan, {action.key: action.reason for action in actions})
        return _outcome(outputs, mine, self.job.stream)

    def _chosen(self) -> list[Committed]:
        records, request = self._main.records, self.request
        found = list(by_offsets(records, [parse_range(text) for text in request.offsets])) if request.offsets else []
        if request.moments is not None:
            start, end = (int(moment.timestamp() * 1000) for moment in request.moments)
            known = {each.plan.key for each in found}
            found += [each for each in by_time(records, start, end) if each.plan.key not in known]
        return found

    def _refill(self, found: Committed, here: Mapping[tuple[str, int], int]) -> Refill:
        plan = found.plan
        first = here.get((plan.topic_id, plan.partition))
        backups = ", ".join(each.name for each in self._backups) or "nowhere: there is no backup stream"
        if first is None or first >= plan.end:
            where = f"the backup ({backups})"
        else:
            where = "Kafka" if first <= plan.start else f"Kafka, before offset {first} the backup ({backups})"
        return Refill(
            key=f"{plan.topic_id}-{plan.partition}-{plan.start}-{plan.attempt}",
            label=str(plan),
            ingest=plan.key,
            topic=plan.topic,
            topic_id=plan.topic_id,
            partition=plan.partition,
            start=plan.start,
            end=plan.end,
            read_from=where,
            parser=self.parser.digest,
            late=(self._late(plan, self._main), self._late(plan, self._dead)),
            rows=sum(part.rows for part in found.slices.slices),
            reason=self.request.reason or "asked for",
        )

    def _in_kafka(self, found: Sequence[Committed]) -> dict[tuple[str, int], int]:
        """Return where the log of each of these partitions begins, by topic's UUID; of topics that are still there."""
        rules = self.job.config.kafka
        wanted = {(each.plan.topic, each.plan.topic_id, each.plan.partition) for each in found}
        if not wanted:
            return {}
        with Broker(rules, rules.consumer_group or f"drystone.{self.job.stream}") as broker:
            topics = {topic.name: topic for topic in broker.topics(rules.topics)}
            there = [
                (Partition(topic, number), topic_id)
                for topic, topic_id, number in sorted(wanted)
                if topic in topics and topics[topic].id == topic_id and number in topics[topic].partitions
            ]
            offsets = broker.offsets([place for place, _ in there])
        return {(topic_id, place.number): offsets[place].start for place, topic_id in there}

    def _tasks(self, plan: Plan, actions: Sequence[Refill]) -> tuple[list[RefillTask], list[RefillOutput]]:
        """Return what is to be done, and what cannot be, each with the reason."""
        found = {each.plan.key: each for action in actions for each in self._plans_of(action)}
        here = self._in_kafka(list(found.values()))
        tasks: list[RefillTask] = []
        refused: list[RefillOutput] = []
        for action in actions:
            try:
                tasks.append(self._task(plan, action, found[action.ingest], here))
            except (HeldError, InputError, UsageError) as error:
                refused.append(RefillOutput(action.key, error=str(error), retryable=error.retryable))
        return tasks, refused

    def _plans_of(self, action: Refill) -> list[Committed]:
        plans = self._main.records.committed(action.topic_id, action.partition, action.start, action.end)
        return [each for each in plans if each.plan.key == action.ingest]

    def _task(self, plan: Plan, action: Refill, found: Committed, here: Mapping[tuple[str, int], int]) -> RefillTask:
        named = (plan.id, action.key)
        first = here.get((action.topic_id, action.partition))
        main, dead = (
            self._stream(name, roots_of(found.plan, found.slices.slices, name, self._sources[name], late, named))
            for name, late in zip(self._targets, action.late, strict=True)
        )
        return RefillTask(
            key=action.key,
            plan=found.plan,
            bucket=self.job.bucket,
            main=main,
            dead=dead,
            parser=self.parser,
            kafka=None if first is None else self.job.config.kafka,
            kafka_from=first or 0,
            backups=tuple(reads for each in self._backups if (reads := self._raw(each, found.plan)).blocks),
            memory=self.job.config.compaction.memory_per_task,
            clock=self.job.workers.clock,
        )

    def _stream(self, name: str, roots: Sequence[Root]) -> Stream:
        view = self._views[name]
        return Stream(
            self._targets[name],
            tuple(roots),
            Reads(Place.of(view), tuple(reads_of(view, [root.source for root in roots]))),
        )

    def _raw(self, backup: KafkaStream, plan: IngestPlan) -> Reads:
        view = self._views[backup.name]
        plans = backup.records.committed(plan.topic_id, plan.partition, plan.start, plan.end)
        sources = {part.source for part in chain.from_iterable(each.slices.slices for each in plans)}
        return Reads(Place.of(view), tuple(reads_of(view, sources)))

    def _audit(self, outputs: Sequence[RefillOutput], plan: Plan, reasons: Mapping[str, str]) -> None:
        now = self.job.clock()
        for name in self._targets:
            new = [(ulid, root, out.key) for out in outputs for stream, ulid, root in out.blocks if stream == name]
            entries = [Entry("upload", ulid, f"in place of source {root}", self.job.run, now) for ulid, root, _ in new]
            entries += [
                Entry("replace", ulid, f"source {root}: backfill {plan.id}: {reasons[key]}", self.job.run, now)
                for ulid, root, key in new
            ]
            append(self.job.bucket, name, iter(entries), now)

    def _late(self, plan: IngestPlan, stream: KafkaStream) -> int:
        found = self._sources.get(stream.name)
        return 0 if found is None else len(found.late(plan, stream.name))

    @cached_property
    def _sources(self) -> dict[str, Sources]:
        both = (self._main.name, self._dead.name)
        return {name: Sources.of(view.timeline) for name, view in self._views.items() if name in both}

    @cached_property
    def _main(self) -> KafkaStream:
        found = next((each for each in self.streams if each.name == self.job.stream), None)
        if found is None or found.group != "partition":
            raise UsageError(f"stream {self.job.stream} is not parsed from Kafka.", "Name one of group: partition.")
        return found

    @cached_property
    def _dead(self) -> KafkaStream:
        wanted = self.job.config.kafka.dead_letters
        return next(each for each in self.streams if each.name == wanted)

    @cached_property
    def _backups(self) -> list[KafkaStream]:
        return [each for each in self.streams if each.group == "backup" and each.records.roots()]

    @cached_property
    def _targets(self) -> dict[str, Target]:
        """The stream and that of its dead letters, in this order; their records and schemas are written."""
        for each in (self._main, self._dead):
            apply_config(self.job.bucket, each.name, each.config)
        return {each.name: self._target(each.name, each.config) for each in (self._main, self._dead)}

    def _target(self, name: str, config: StreamConfig) -> Target:
        columns = config.columns if isinstance(config.columns, dict) else {}
        schema = Schema(columns=tuple(Column(name=column, type=kind) for column, kind in columns.items()))
        fingerprint = keep_schema(self.job.bucket, name, schema)
        stamp = dict(self.job.coordination.stamp())
        return Target(name, config, schema, fingerprint, self.job.run, stamp)

    @cached_property
    def _views(self) -> dict[str, View]:
        wanted = (self._main, self._dead, *self._backups)
        known = (each for each in wanted if find_record(each.bucket, each.name) is not None)
        return {each.name: look(each.bucket, each.name, self.job.clock) for each in known}


def _outcome(outputs: Sequence[RefillOutput], mine: list[str], stream: str) -> Outcome:
    failures = [f"{output.key}: {output.error}" for output in outputs if output.error]
    others: dict[str, list[str]] = {}
    for name, ulid, _ in (block for output in outputs for block in output.blocks):
        if name != stream:
            others.setdefault(name, []).append(ulid)
    dead = sum(map(len, others.values()))
    messages, bad = (sum(getattr(output, name) for output in outputs) for name in ("messages", "bad"))
    line = f"{messages:,} messages parsed anew, {bad:,} of them bad: {len(mine)} blocks, {dead} of dead letters."
    return Outcome(
        summary={"messages": messages, "bad": bad, "blocks": len(mine), "dead_letter_blocks": dead},
        blocks=mine,
        other_blocks=others,
        report=[line, "They are read once they are ready."],
        failures=failures,
        retryable=any(output.retryable for output in outputs),
    )
