"""A stream to export, empty."""

from __future__ import annotations

from uuid import uuid4

import pytest
from exports import NOW, Bench, config

from drystone.bucket.memory import MemoryBucket
from drystone.testing.streams import ManualClock


@pytest.fixture
def bench() -> Bench:
    """A backup stream in memory that exports SequenceFiles with MessagePack keys, by the day."""
    clock = ManualClock(NOW)
    return Bench(MemoryBucket(uuid4().hex, clock), clock, config())
