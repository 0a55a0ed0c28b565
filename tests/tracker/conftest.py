"""A stream in a bucket of each kind."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest
from tracked import NOW, Counting, Stream

from drystone.bucket import LocalBucket, MemoryBucket
from drystone.bucket.protocol import Bucket
from drystone.testing.folders import STREAM
from drystone.testing.streams import ManualClock
from drystone.tracker import ListingTracker


@pytest.fixture(params=["memory", "local"])
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Stream:
    """An empty stream, in memory and in a folder."""
    clock = ManualClock(NOW)
    inner: Bucket = MemoryBucket(uuid4().hex, clock) if request.param == "memory" else LocalBucket(tmp_path, clock)
    bucket = Counting(inner)
    return Stream(bucket, clock, ListingTracker(bucket, STREAM))
