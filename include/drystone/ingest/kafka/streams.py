"""The streams of a configuration that hold messages of Kafka, and how they belong together."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

from drystone import ulids
from drystone.bucket import open_bucket
from drystone.bucket.protocol import Bucket
from drystone.config.ingest import DeadLetters, KafkaIngest
from drystone.config.load import Loaded
from drystone.config.model import StreamConfig
from drystone.errors import UsageError
from drystone.ingest.kafka.plans import Plan
from drystone.ingest.kafka.records import Records


@dataclass(frozen=True, slots=True)
class KafkaStream:
    """A stream with messages. `planned_by`: the stream whose ingest fills it, which is another one for dead letters."""

    name: str
    config: StreamConfig
    bucket: Bucket
    planned_by: str
    generation: int

    @property
    def group(self) -> str:
        """What it holds: `backup`, `partition`, or `dead letters`."""
        return self.config.ingest.group if isinstance(self.config.ingest, KafkaIngest) else "dead letters"

    @property
    def records(self) -> Records:
        """The plans that name its sources."""
        return Records(self.bucket, self.planned_by, self.generation)


def kafka_streams(loaded: Loaded) -> list[KafkaStream]:
    """Return every stream of the configuration that holds messages of Kafka, by name."""
    return list(_find(loaded))


def kafka_stream(loaded: Loaded, name: str) -> KafkaStream:
    """Return one of them; raise UsageError if the stream holds no messages of Kafka."""
    config = loaded.stream(name)
    found = next((each for each in _find(loaded) if each.name == name), None)
    if found is None and isinstance(config.ingest, DeadLetters):
        msg = f"stream {name} is named by no stream's ingest.dead_letters: nothing says where its messages came from."
        raise UsageError(msg, "Add the stream that parses them to the file.")
    if found is None:
        raise UsageError(f"stream {name} holds no messages of Kafka.", "Name one whose ingest.kind is kafka.")
    return found


def late_root(plan: Plan, stream: str, number: int) -> str:
    """Return the source that stands for messages of a plan which came to `stream` by its `number`-th backfill, from 0.

    It has no rows of its own. What a backfill moves from the dead letters to the stream, or the other way round, takes
    its place: so of several backfills the newest one's counts, as for every other source.
    """
    parts = (plan.stream, stream, str(plan.generation), plan.topic_id, str(plan.partition), str(plan.start))
    return ulids.derive(plan.planned_at, "late", *parts, str(plan.attempt), str(number))


def late_roots(plan: Plan, stream: str, known: Container[str]) -> list[str]:
    """Return those of these sources that are in use. `known`: all that the stream's blocks have, or tell of."""
    found: list[str] = []
    while (root := late_root(plan, stream, len(found))) in known:
        found.append(root)
    return found


def _find(loaded: Loaded) -> Iterator[KafkaStream]:
    owners = {
        config.ingest.dead_letters: name
        for name, config in loaded.config.streams.items()
        if isinstance(config.ingest, KafkaIngest)
    }
    for name, config in sorted(loaded.config.streams.items()):
        if isinstance(config.ingest, KafkaIngest):
            yield KafkaStream(name, config, open_bucket(loaded.bucket_url(name)), name, config.generation)
        elif isinstance(config.ingest, DeadLetters) and name in owners:
            owner = owners[name]
            generation = loaded.config.streams[owner].generation
            yield KafkaStream(name, config, open_bucket(loaded.bucket_url(name)), owner, generation)
