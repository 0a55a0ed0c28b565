"""How far a stream is behind Kafka, partition by partition. Source: the design, "Ingest: lag and alerts"."""

from __future__ import annotations

from dataclasses import dataclass

from drystone.ingest.kafka.chain import Chain, Ground, Next
from drystone.ingest.kafka.log import Log, Offsets, Partition
from drystone.ingest.kafka.plans import Root
from drystone.ingest.kafka.streams import KafkaStream


@dataclass(frozen=True, slots=True)
class Lag:
    """A partition: everything before `committed` is in blocks, and `end` is where its committed messages end.

    `waiting`: offsets between, at most so many messages. `oldest`: when the first message of these was written (ms),
    `age`: how long ago that is; None: there is none. `dead_letters`: of all messages so far. `lost`: offsets that Kafka
    deleted before they were read.
    """

    topic: str
    topic_id: str
    partition: int
    committed: int
    end: int
    waiting: int
    oldest: int | None
    age: int | None
    dead_letters: int
    lost: int


def lag_of(stream: KafkaStream, log: Log, now: int) -> list[Lag]:
    """Return how far the stream is behind in every partition of its topics; `now`: ms. Nothing is changed."""
    topics = log.topics(stream.config.kafka.topics)
    offsets = log.offsets([Partition(topic.name, number) for topic in topics for number in topic.partitions])
    ids = {topic.name: topic.id for topic in topics}
    ground = Ground(stream.bucket, stream.name, stream.generation)
    roots = {topic.name: ground.known_root(topic.id) for topic in topics}
    begun = {each: _committed(stream, ground, roots[each.topic], each, offsets[each]) for each in offsets}
    samples = log.samples({each: Offsets(max(begun[each], there.start), there.end) for each, there in offsets.items()})
    return [
        _lag(each, ids[each.topic], begun[each], there, samples[each].oldest, now, _bad(stream, ids[each.topic], each))
        for each, there in sorted(offsets.items())
    ]


def _lag(  # noqa: PLR0917 - the parts of one line
    place: Partition, topic_id: str, committed: int, there: Offsets, oldest: int | None, now: int, bad: int
) -> Lag:
    return Lag(
        topic=place.topic,
        topic_id=topic_id,
        partition=place.number,
        committed=committed,
        end=there.end,
        waiting=max(0, there.end - max(committed, there.start)),
        oldest=oldest,
        age=None if oldest is None else max(0, now - oldest),
        dead_letters=bad,
        lost=max(0, there.start - committed),
    )


def _committed(stream: KafkaStream, ground: Ground, root: Root | None, place: Partition, there: Offsets) -> int:
    if root is None:
        return there.start if stream.config.kafka.start == "earliest" else there.end
    chain: Chain = ground.chain(root, place.number)
    found = chain.position()
    return found.start if isinstance(found, Next) else found.plan.start


def _bad(stream: KafkaStream, topic_id: str, place: Partition) -> int:
    return stream.records.bad(topic_id, place.number) if stream.group == "partition" else 0
