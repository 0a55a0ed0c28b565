"""Plans, results and journal entries are kept for a while, for people and for retries, and then removed."""

from __future__ import annotations

from drystone.block import keys
from drystone.bucket.protocol import Bucket

KEPT_MS = 30 * 24 * 3_600_000
"""Nothing that a run of the last 30 days wrote is removed."""


def tidy(bucket: Bucket, stream: str, now: int) -> int:
    """Remove the plans, reports and journal entries that are older than 30 days; return how many."""
    prefixes = (keys.plans(stream), keys.reports(stream), keys.journal(stream))
    old = [item.key for prefix in prefixes for item in bucket.list(prefix) if item.modified + KEPT_MS < now]
    bucket.delete(old)
    return len(old)
