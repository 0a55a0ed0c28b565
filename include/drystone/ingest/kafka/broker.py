"""What a run asks of a Kafka cluster: topics, offsets, a look at what waits. Source: the design, "Ingest: from Kafka".

Messages are not read here but by Spark. Every question has a deadline.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, TypeVar

from confluent_kafka import (
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from drystone.config.ingest import KafkaIngest
from drystone.errors import UsageError
from drystone.ingest.kafka.failures import Heard, explained
from drystone.ingest.kafka.log import Offsets, Partition, Sample, Topic
from drystone.ingest.kafka.sampling import sampled
from drystone.ingest.kafka.settings import filled

TIMEOUT = 20.0
"""How long (s) an answer is waited for."""

_T = TypeVar("_T")


class Broker(AbstractContextManager["Broker"]):
    """A connection to a cluster, for one consumer group.

    Its methods raise KafkaAccessError where rights or secrets are wrong, and KafkaError, after which another attempt
    may help, for a cluster that cannot be reached or a topic that was deleted meanwhile.
    """

    def __init__(self, config: KafkaIngest, group: str, timeout: float = TIMEOUT) -> None:
        """`group`: the consumer group. Raises UsageError for a setting that no client has, or a variable not set."""
        self.servers = config.bootstrap_servers
        self._where = f"Kafka at {self.servers}"
        self._group = group
        self._timeout = timeout
        self._heard = Heard()
        self._settings: dict[str, Any] = {
            # The client would print what is raised here.
            "log_level": "2",
            "client.id": "drystone",
            **filled(config.client, "ingest.client"),
            "bootstrap.servers": self.servers,
            "error_cb": self._heard,
        }
        try:
            self._admin = AdminClient(self._settings)
        except (KafkaException, TypeError, ValueError) as error:
            raise UsageError(f"ingest.client: {_reason(error)}.", "Settings are librdkafka's.") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the cluster: the client goes when nobody has it any more."""
        del self._admin

    def topics(self, pattern: str) -> list[Topic]:
        """Return the topics whose whole name fits the pattern, by name; Kafka's own are never among them.

        Raises UsageError if there is none.
        """
        wanted = re.compile(pattern)
        try:
            known = self._admin.list_topics(timeout=self._timeout).topics
        except KafkaException as error:
            raise self._explained(error, "list its topics") from None
        names = sorted(name for name in known if wanted.fullmatch(name))
        asked = self._admin.describe_topics(TopicCollection(names), request_timeout=self._timeout) if names else {}
        found = [self._answer(asked[name], f"describe topic {name}") for name in names]
        topics = [
            Topic(each.name, _id(each.topic_id), tuple(sorted(part.id for part in each.partitions)))
            for each in found
            if not each.is_internal
        ]
        if not topics:
            raise UsageError(
                f"no topic of {self.servers} matches {pattern!r}, of {len(known)} that its client may see.",
                "Look at ingest.topics, which has to fit whole names, and at the client's rights.",
            )
        return topics

    def offsets(self, partitions: Iterable[Partition]) -> dict[Partition, Offsets]:
        """Return which offsets each partition has."""
        wanted = list(partitions)
        # First the starts: an end only grows, so none lies before its start.
        starts = self._list_offsets(wanted, OffsetSpec.earliest())
        ends = self._list_offsets(wanted, OffsetSpec.latest())
        return {each: Offsets(starts[each], ends[each]) for each in wanted}

    def samples(self, ranges: Mapping[Partition, Offsets]) -> dict[Partition, Sample]:
        """Read a few committed messages from the beginning of each range: what waits there, about how big and old."""
        some = {each: offsets for each, offsets in ranges.items() if offsets.start < offsets.end}
        settings = self._settings | {"group.id": self._group}
        heard = Heard()
        try:
            found = sampled(settings, {(*each,): (*offsets,) for each, offsets in some.items()}, self._timeout, heard)
        except KafkaException as error:
            raise explained(error, self._where, "read messages", heard) from None
        return {each: found.get((*each,), Sample()) for each in ranges}

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Move the group's offsets: for other tools, which tell its lag by them. Nothing else rests on them."""
        if not offsets:
            return
        moved = [TopicPartition(each.topic, each.number, offset) for each, offset in offsets.items()]
        wanted = [ConsumerGroupTopicPartitions(self._group, moved)]
        what = f"move the offsets of group {self._group}"
        answers = self._admin.alter_consumer_group_offsets(wanted, request_timeout=self._timeout)
        self._check(self._answer(answers[self._group], what), what)

    def committed(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """Return the group's offsets; a partition that it has none for is left out."""
        asked = [TopicPartition(each.topic, each.number) for each in partitions]
        if not asked:
            return {}
        what = f"read the offsets of group {self._group}"
        wanted = [ConsumerGroupTopicPartitions(self._group, asked)]
        answers = self._admin.list_consumer_group_offsets(wanted, request_timeout=self._timeout)
        found = self._check(self._answer(answers[self._group], what), what)
        return {Partition(each.topic, each.partition): each.offset for each in found if each.offset >= 0}

    def _list_offsets(self, partitions: list[Partition], spec: OffsetSpec) -> dict[Partition, int]:
        if not partitions:
            return {}
        answers = self._admin.list_offsets(
            {TopicPartition(*each): spec for each in partitions},
            isolation_level=IsolationLevel.READ_COMMITTED,
            request_timeout=self._timeout,
        )
        found: dict[Partition, int] = {}
        for asked, answer in answers.items():
            each = Partition(asked.topic, asked.partition)
            found[each] = self._answer(answer, f"tell the offsets of {each}").offset
        return found

    def _answer(self, future: Future[_T], what: str) -> _T:
        try:
            # The client itself gives up at the timeout; some more is only for the case that it does not.
            return future.result(2 * self._timeout)
        except (KafkaException, TimeoutError) as error:
            raise self._explained(error, what) from None

    def _check(self, answer: ConsumerGroupTopicPartitions, what: str) -> list[TopicPartition]:
        found = answer.topic_partitions or []
        for each in found:
            if each.error is not None:
                raise self._explained(KafkaException(each.error), what)
        return found

    def _explained(self, error: Exception, what: str) -> Exception:
        """Return what to raise, with what the client has heard of the cluster meanwhile."""
        self._admin.poll(0)
        return explained(error, self._where, what, self._heard)


def _id(given: object) -> str:
    """Return a UUID as Kafka's own tools show it: the client uses another alphabet, with a slash."""
    return str(given).translate(str.maketrans("+/", "-_")).rstrip("=")


def _reason(error: Exception) -> str:
    detail = error.args[0] if error.args else error
    text = detail.str() if hasattr(detail, "str") else str(detail)
    return " ".join(str(text).split()).rstrip(".")
