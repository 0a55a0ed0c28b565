"""Pins: a long read keeps removers off for as long as it says. Source: the design, "Guards: long readers"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from drystone import ulids
from drystone.block import keys
from drystone.block.guards import Pin
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock


@contextmanager
def pinned(bucket: Bucket, stream: str, owner: str, length_ms: int, clock: Clock) -> Iterator[str]:
    """Keep every block of the stream from deletion while the block runs, at most `length_ms`. Yields the pin's key.

    The pin is written before anything is looked at, so that nothing the read then sees can go.
    """
    now = clock()
    key = f"{keys.pins(stream)}{ulids.new(now)}.json"
    bucket.create(key, Pin(owner=owner, reason="read", created=now, expires=now + length_ms).to_json())
    try:
        yield key
    finally:
        bucket.delete([key])
