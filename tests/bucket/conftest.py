"""The buckets that the shared tests run on. A further kind is one more entry in `SHARED` (or `MAKERS`)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from drystone.bucket import Bucket, LocalBucket, MemoryBucket

Maker = Callable[[Path], Bucket]


def _local(folder: Path) -> Bucket:
    return LocalBucket(folder / "bucket")


def _memory(_: Path) -> Bucket:
    return MemoryBucket(secrets.token_hex(8))


SHARED: dict[str, Maker] = {"local": _local}
"""The kinds whose objects other processes see too."""
MAKERS: dict[str, Maker] = SHARED | {"memory": _memory}


@pytest.fixture(params=list(MAKERS.values()), ids=list(MAKERS))
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """Every kind of bucket in turn, empty."""
    made: Bucket = request.param(tmp_path)
    return made


@pytest.fixture(params=list(SHARED.values()), ids=list(SHARED))
def shared_bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """Every kind of bucket that several processes can share, in turn, empty."""
    made: Bucket = request.param(tmp_path)
    return made
