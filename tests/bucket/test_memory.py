"""What a bucket in memory does beyond the protocol."""

from __future__ import annotations

import os
import pickle
import secrets
import subprocess
import sys

from drystone.bucket import MemoryBucket


def test_a_name_is_a_bucket() -> None:
    """Buckets of one name are the same one, those of two names have nothing in common."""
    name = secrets.token_hex(8)
    MemoryBucket(name).put("k", b"data")
    assert MemoryBucket(name).get("k") == b"data"
    assert list(MemoryBucket(f"{name}-other").list("")) == []


def test_the_clock_gives_objects_their_times() -> None:
    """Times come from the clock given last, for every bucket of the name; opening it without one changes nothing."""
    name = secrets.token_hex(8)
    first = MemoryBucket(name, lambda: 1_000)
    MemoryBucket(name).put("k", b"")
    assert first.head("k").modified == 1_000
    MemoryBucket(name, lambda: 2_000)
    first.put("k", b"")
    assert first.head("k").modified == 2_000


def test_a_listing_shows_one_moment() -> None:
    """A listing that has begun does not change with what is written and deleted meanwhile."""
    bucket = MemoryBucket(secrets.token_hex(8))
    for key in "abc":
        bucket.put(key, b"")
    listing = bucket.list("")
    seen = [next(listing).key]
    bucket.delete(["b"])
    bucket.put("bb", b"")
    assert seen + [found.key for found in listing] == ["a", "b", "c"]


def test_another_process_is_told_that_it_cannot_reach_it() -> None:
    """A pickled bucket raises BucketError in another process, instead of being an empty bucket there."""
    bucket = MemoryBucket(secrets.token_hex(8))
    program = "import pickle, sys; pickle.load(sys.stdin.buffer)"
    result = subprocess.run(
        [sys.executable, "-c", program], input=pickle.dumps(bucket), capture_output=True, check=False, timeout=60
    )
    assert result.returncode == 1
    assert f"{bucket.url} lives in process {os.getpid()}" in result.stderr.decode()
