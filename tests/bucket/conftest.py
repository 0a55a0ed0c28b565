"""The buckets that the shared tests run on. A further kind is one more entry in `SHARED` (or `MAKERS`)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from s3_buckets import new_bucket

from drystone.bucket import Bucket, LocalBucket, MemoryBucket
from drystone.testing.s3_proxy import S3Proxy, s3_proxy
from drystone.testing.s3_server import S3Server

Maker = Callable[[pytest.FixtureRequest, Path], Bucket]


def _local(_: pytest.FixtureRequest, folder: Path) -> Bucket:
    return LocalBucket(folder / "bucket")


def _memory(_: pytest.FixtureRequest, __: Path) -> Bucket:
    return MemoryBucket(secrets.token_hex(8))


def _s3(request: pytest.FixtureRequest, _: Path) -> Bucket:
    return new_bucket(request.getfixturevalue("s3_account"))


SHARED: dict[str, Maker] = {"local": _local, "s3": _s3}
"""The kinds whose objects other processes see too."""
MAKERS: dict[str, Maker] = SHARED | {"memory": _memory}


@pytest.fixture(params=list(MAKERS.values()), ids=list(MAKERS))
def bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """Every kind of bucket in turn, empty."""
    made: Bucket = request.param(request, tmp_path)
    return made


@pytest.fixture(params=list(SHARED.values()), ids=list(SHARED))
def shared_bucket(request: pytest.FixtureRequest, tmp_path: Path) -> Bucket:
    """Every kind of bucket that several processes can share, in turn, empty."""
    made: Bucket = request.param(request, tmp_path)
    return made


@pytest.fixture(scope="module")
def running_proxy(s3: S3Server) -> Iterator[S3Proxy]:
    """A proxy before the S3 server."""
    with s3_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture
def proxy(running_proxy: S3Proxy) -> S3Proxy:
    """The proxy, which only notes what passes, from now on."""
    running_proxy.judge = lambda _: None
    running_proxy.passed.clear()
    return running_proxy
