"""The upload job of a stream from Kafka: messages to blocks, read by Spark's own Kafka source.

One plan is one partition of Spark's, so one task reads, parses and uploads one plan, in bounded memory, and there is no
shuffle. Source: the design, "Ingest: from Kafka" (upload).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from drystone.config.model import StreamConfig
from drystone.engine.outcome import Outcome
from drystone.engine.record import keep_schema
from drystone.engine.schemas import fitting_schema, known_schema
from drystone.errors import UsageError
from drystone.ingest.kafka.answers import Answer, Answering, parse_answer
from drystone.ingest.kafka.broker import Broker
from drystone.ingest.kafka.build import PlanBuilder
from drystone.ingest.kafka.plans import Plan
from drystone.ingest.kafka.same_topic import SameTopic
from drystone.ingest.kafka.settings import filled
from drystone.ingest.origin import Target
from drystone.ingest.parsers.protocol import Parser
from drystone.ingest.parsers.registry import parser_of
from drystone.jobs import UploadRequest
from drystone.spark.context import JobContext
from drystone.tracker import ListingTracker, Tracker
from drystone.verbs.kafka import DeadStream, KafkaUpload

_OURS = (
    "kafka.bootstrap.servers",
    "kafka.isolation.level",
    "assign",
    "subscribe",
    "subscribePattern",
    "startingOffsets",
    "endingOffsets",
    "includeHeaders",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
)
"""Options of Spark's source that the plans decide."""


def run(job: JobContext, request: UploadRequest) -> Outcome:
    """Upload what waits in Kafka and is due; what an earlier run began is finished first."""
    config = job.config.kafka
    if taken := sorted(set(_OURS) & config.spark.keys()):
        raise UsageError(f"ingest.spark: {taken[0]} is not for the file to say.", "Leave it out.")
    group = config.consumer_group or f"drystone.{job.stream}.{job.config.generation}"
    parser = None if config.parser is None else parser_of(job.config, job.loaded.path.parent)
    dead = None
    if config.dead_letters is not None:
        tracker = ListingTracker(job.bucket, config.dead_letters)
        dead = DeadStream(config.dead_letters, job.loaded.stream(config.dead_letters), tracker)
    with Broker(config, group) as broker:
        tasks = _Tasks(job, group, parser, dead)
        digest = "" if parser is None else parser.digest
        return KafkaUpload(job, request, broker, digest, dead, tasks.run_plans).run()


@dataclass
class _Tasks:
    """Has Spark read and build plans. `group`: of the consumers, for rights; they commit nothing to it."""

    job: JobContext
    group: str
    parser: Parser | None
    dead: DeadStream | None
    _targets: dict[str, Target] = field(default_factory=dict)

    def run_plans(self, plans: Sequence[Plan], present: frozenset[str]) -> list[Answer]:
        """See `drystone.verbs.kafka.RunPlans`."""
        config = self.job.config.kafka
        # Tasks run where the environment may be another one.
        known = config.model_copy(update={"client": filled(config.client, "ingest.client")})
        builder = PlanBuilder(
            bucket=self.job.bucket,
            plans={(plan.topic, plan.partition): plan for plan in plans},
            main=self._target(self.job.stream, self.job.config, self.job.tracker),
            dead=None if self.dead is None else self._target(self.dead.name, self.dead.config, self.dead.tracker),
            parser=self.parser,
            max_bad_fraction=config.max_bad_fraction,
            present=present,
            memory=self.job.config.compaction.memory_per_task,
            clock=self.job.workers.clock,
            confirm=SameTopic(known, self.group),
        )
        rows = self._messages(plans).mapInArrow(Answering(builder), "result string").collect()
        return [parse_answer(row["result"]) for row in rows]

    def _messages(self, plans: Sequence[Plan]) -> DataFrame:
        """Return the committed messages of these plans, each plan's in one partition, as MESSAGES has them."""
        config = self.job.config.kafka
        starts: dict[str, dict[str, int]] = {}
        ends: dict[str, dict[str, int]] = {}
        for plan in plans:
            starts.setdefault(plan.topic, {})[str(plan.partition)] = plan.start
            ends.setdefault(plan.topic, {})[str(plan.partition)] = plan.end
        frame = (
            self.job.spark.read.format("kafka")
            .options(**filled(config.spark, "ingest.spark"))
            .option("kafka.bootstrap.servers", config.bootstrap_servers)
            .option("kafka.isolation.level", "read_committed")
            .option("assign", json.dumps({topic: [int(each) for each in found] for topic, found in starts.items()}))
            .option("startingOffsets", json.dumps(starts))
            .option("endingOffsets", json.dumps(ends))
            .option("includeHeaders", "true")
            .option("failOnDataLoss", "true")
            .load()
        )
        # Kafka has -1 where it has no time.
        time = F.when(F.unix_millis("timestamp") != -1, F.col("timestamp")).alias("timestamp")
        # To measure a batch, which it does for each row, Spark's Arrow writer goes over the lists that are null again.
        none = F.array().cast(frame.schema["headers"].dataType)
        headers = F.coalesce("headers", none).alias("headers")
        return frame.select("topic", "partition", "offset", time, "key", "value", headers)

    def _target(self, stream: str, config: StreamConfig, tracker: Tracker) -> Target:
        if stream not in self._targets:
            folders = tracker.observe(self.job.clock()).folders.values()
            schema = fitting_schema(config, known_schema(self.job.bucket, stream, folders, config.generation))
            self._targets[stream] = Target(
                stream=stream,
                config=config,
                schema=schema,
                fingerprint=keep_schema(self.job.bucket, stream, schema),
                operation=self.job.run,
                stamp=dict(self.job.coordination.stamp()),
            )
        return self._targets[stream]
