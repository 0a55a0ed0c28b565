"""A stream in a bucket of each kind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from s3_buckets import Dated
from tracked import NOW, Counting, Stream

from drystone.bucket import LocalBucket, MemoryBucket
from drystone.bucket.protocol import Bucket
from drystone.testing.folders import STREAM
from drystone.testing.streams import ManualClock
from drystone.tracker import ListingTracker


@pytest.fixture(params=["memory", "local", "s3"])
def stream(request: pytest.FixtureRequest, tmp_path: Path) -> Stream:
    """An empty stream, in memory, in a folder and in S3."""
    clock = ManualClock(NOW)
    makers: dict[str, Callable[[], Bucket]] = {
        "memory": lambda: MemoryBucket(uuid4().hex, clock),
        "local": lambda: LocalBucket(tmp_path, clock),
        "s3": lambda: Dated(request.getfixturevalue("s3"), clock),
    }
    inner = makers[request.param]()
    bucket = Counting(inner)
    return Stream(bucket, clock, ListingTracker(bucket, STREAM))
