"""The upload policy: which waiting messages of a partition make a plan now. Pure.

Source: the design, "Ingest: from Kafka" (plan).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from drystone.config.ingest import KafkaIngest
from drystone.ingest.kafka.log import Offsets, Sample

Reason = Literal["size", "age", "forced", "empty"]


@dataclass(frozen=True, slots=True)
class Due:
    """Plan the offsets up to `end`, for this reason."""

    end: int
    reason: Reason


def due(waiting: Offsets, sample: Sample, policy: KafkaIngest, now: int, *, force: bool) -> Due | None:
    """Return up to where to plan of the offsets that wait, and why; None where they are neither many nor old.

    `sample`: of these offsets. A plan has about `max_bytes` at most, whatever waits. Offsets without a message (what
    aborted transactions leave, and the ends of all) are due at once: they cost nothing, and would be taken for lost
    messages once Kafka has deleted them. Messages without a timestamp are old: nothing says that they are not.
    """
    if waiting.start >= waiting.end:
        return None
    if not sample.messages:
        return Due(waiting.end, "empty")
    fitting = max(1, int(policy.max_bytes / max(sample.mean_bytes, 1)))
    end = min(waiting.end, waiting.start + fitting)
    if sample.mean_bytes * (waiting.end - waiting.start) >= policy.max_bytes:
        return Due(end, "size")
    if sample.oldest is None or now - sample.oldest > policy.max_age:
        return Due(end, "age")
    return Due(end, "forced") if force else None
