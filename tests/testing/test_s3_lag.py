"""The proxy's late view: new objects are hidden, deleted ones are shown, and conditional writes stay strict."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace

import pytest

from drystone.bucket.s3 import S3Bucket
from drystone.bucket.s3_store import Retries, Store
from drystone.errors import ObjectExistsError, ObjectMissingError
from drystone.testing.s3_lag import Lag
from drystone.testing.s3_proxy import S3Proxy, s3_proxy
from drystone.testing.s3_server import S3Server

LONGEST = 10.0


class Time:
    """A clock in seconds that stands still until it is moved."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


@pytest.fixture(scope="module")
def running_proxy(s3: S3Server) -> Iterator[S3Proxy]:
    """A proxy before the S3 server."""
    with s3_proxy(s3.endpoint) as running:
        yield running


@pytest.fixture
def time() -> Time:
    """The clock of the view."""
    return Time()


@pytest.fixture
def late(s3: S3Server, running_proxy: S3Proxy, time: Time) -> S3Bucket:
    """An empty bucket that is seen up to ten seconds late."""
    running_proxy.late = Lag(Store(s3.address(), s3.credentials, Retries()), LONGEST, seed=3, clock=time)
    address = replace(s3.address(prefix=secrets.token_hex(8)), endpoint=running_proxy.endpoint)
    retries = Retries(2, sleep=lambda _: None)
    return S3Bucket(address, credentials=s3.credentials, retries=retries, page_keys=3)


def keys_of(bucket: S3Bucket) -> list[str]:
    """Return what a listing shows."""
    return [found.key for found in bucket.list("")]


def test_new_objects_are_seen_late_by_list_and_by_get(late: S3Bucket, time: Time) -> None:
    """A new object is hidden at first, from LIST, GET and HEAD, and seen by all when the lag is over."""
    for number in range(10):
        late.create(f"k{number}", b"data")
    assert keys_of(late) == []
    for call in (late.get, late.head):
        with pytest.raises(ObjectMissingError):
            call("k0")
    time.now = LONGEST / 2
    assert 0 < len(keys_of(late)) < 10
    time.now = LONGEST
    assert keys_of(late) == [f"k{number}" for number in range(10)]
    assert late.get("k0") == b"data"


def test_deleted_objects_are_seen_for_a_while(late: S3Bucket, time: Time) -> None:
    """A deleted object is listed and read as it was until the lag is over; each page stays in order."""
    for number in range(10):
        late.create(f"k{number}", b"data")
    time.now = LONGEST
    late.delete([f"k{number}" for number in range(0, 10, 2)])
    late.delete(["k9"])
    assert keys_of(late) == [f"k{number}" for number in range(10)]
    assert late.get("k0") == b"data"
    assert late.get_range("k0", 1, 2) == b"at"
    assert late.head("k0").size == 4
    time.now = 2 * LONGEST
    assert keys_of(late) == ["k1", "k3", "k5", "k7"]
    with pytest.raises(ObjectMissingError):
        late.get("k0")


def test_an_overwritten_object_is_seen_as_it_was(late: S3Bucket, time: Time) -> None:
    """An overwrite shows the older bytes for a while."""
    late.put("k", b"older")
    time.now = LONGEST
    late.put("k", b"newer, and longer")
    assert late.get("k") == b"older"
    assert [found.size for found in late.list("")] == [5]
    time.now = 2 * LONGEST
    assert late.get("k") == b"newer, and longer"
    assert [found.size for found in late.list("")] == [17]


def test_create_only_is_as_strict_as_ever(late: S3Bucket, time: Time) -> None:
    """A key that is taken is taken, however late it is seen by others."""
    late.create("k", b"first")
    time.now = LONGEST
    with pytest.raises(ObjectExistsError):
        late.create("k", b"second")
    assert late.get("k") == b"first"
