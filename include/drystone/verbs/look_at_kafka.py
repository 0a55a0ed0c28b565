"""A look at the Kafka of a stream, for what needs one beside the ingest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from drystone.engine.job import Job
from drystone.ingest.export.left import Left
from drystone.ingest.kafka.broker import Broker


@contextmanager
def look_at_kafka(job: Job) -> Iterator[Left]:
    """Yield what Kafka has now; it can be asked more until the block is left. Raises as `Broker` does."""
    config = job.config.kafka
    group = config.consumer_group or f"drystone.{job.stream}.{job.config.generation}"
    with Broker(config, group) as broker:
        yield Left(broker, config.topics, job.clock)
