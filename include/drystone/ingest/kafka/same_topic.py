"""Making sure that the messages that were read are those of the topic that was planned."""

from __future__ import annotations

import re
from dataclasses import dataclass

from drystone.config.ingest import KafkaIngest
from drystone.errors import KafkaError, UsageError
from drystone.ingest.kafka.broker import Broker
from drystone.ingest.kafka.plans import Plan


@dataclass(frozen=True)
class SameTopic:
    """Asked by a task after it has read a plan's messages, before it says what they came to.

    Messages are read by the topic's name. If the topic is deleted and made again meanwhile, the same offsets hold other
    messages. UUIDs do not come back: if the topic still has the plan's, it had it all the time.
    """

    config: KafkaIngest
    group: str

    def __call__(self, plan: Plan) -> None:
        """Raise KafkaError if the topic is another one now."""
        with Broker(self.config, self.group) as broker:
            try:
                found = broker.topics(re.escape(plan.topic))
            except UsageError:
                found = []
        if [topic.id for topic in found] != [plan.topic_id]:
            msg = f"topic {plan.topic} was deleted, or made again, while {plan} was read."
            raise KafkaError(msg, "Nothing of it was uploaded; the next run sees what is there.")
