"""The remover's lease: one run at a time removes, also outside Airflow. Source: the design, "Guards: one remover".

Leases are numbered, create-only objects: to take one is to create the next number, which only one of several can do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass

from pydantic import ValidationError

from drystone.block import keys
from drystone.block.guards import Lease
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.engine.pacer import Pacer
from drystone.errors import DrystoneError, HeldError, ObjectExistsError, ObjectMissingError

TTL_MS = 20_000
"""For how long (ms) a lease holds that nobody renews."""
_ATTEMPTS = 24
_NUMBERED = re.compile(r"/\d{12}\.json$")


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that this run holds."""

    bucket: Bucket
    stream: str
    key: str
    lease: Lease

    def check(self, now: int) -> None:
        """Raise HeldError if the lease has run out or somebody has taken the next one."""
        # A listing may lag, and not show it yet. What it does show has been taken.
        current = None if _newest(self.bucket, self.stream) > self.key else _read(self.bucket, self.key)
        if current is None or now >= current.expires:
            msg = f"stream {self.stream}: {self.lease.owner} no longer holds the remover's lease."
            raise HeldError(msg, "Nothing more was removed; run it again.")


@contextmanager
def remover_lease(bucket: Bucket, stream: str, owner: str, ttl_ms: int, clock: Clock) -> Iterator[Held]:
    """Hold the stream's remover lease for the block, at most `ttl_ms`; raise HeldError if another run has it.

    A run that is started again under the same owner takes its own lease over: it died.
    """
    held = _acquire(bucket, stream, owner, ttl_ms, clock())
    try:
        yield held
    finally:
        bucket.delete([held.key])


@contextmanager
def kept_lease(bucket: Bucket, stream: str, owner: str, clock: Clock, pacer: Pacer) -> Iterator[Held]:
    """Hold the lease for as long as the block runs, by short leases that are renewed.

    A run that was killed keeps the next one waiting for `TTL_MS`, and not longer: it waits that out. Raises HeldError
    if another run goes on renewing.
    """
    with ExitStack() as stack:
        for attempt in range(_ATTEMPTS):
            try:
                held = stack.enter_context(remover_lease(bucket, stream, owner, TTL_MS, clock))
                break
            except HeldError:
                if attempt + 1 == _ATTEMPTS:
                    raise
                pacer.sleep(TTL_MS // (_ATTEMPTS - 4))
        stack.enter_context(pacer.every(TTL_MS // 4, lambda: _renew(held, clock)))
        yield held


def _renew(held: Held, clock: Clock) -> None:
    """Put the lease's end off; one that was lost or cannot be written runs out, which acts notice."""
    with suppress(DrystoneError):
        held.check(clock())
        fresh = held.lease.model_copy(update={"expires": clock() + TTL_MS})
        held.bucket.put(held.key, fresh.to_json())


def _acquire(bucket: Bucket, stream: str, owner: str, ttl_ms: int, now: int) -> Held:
    prefix = keys.leases(stream)
    newest = _newest(bucket, stream)
    number = 0
    if newest:
        number = int(newest.removeprefix(prefix).removesuffix(".json")) + 1
        current = _read(bucket, newest)
        if current is not None and current.owner != owner and current.expires > now:
            _refuse(stream, current, now)
    lease = Lease(owner=owner, reason="remover", created=now, expires=now + ttl_ms)
    key = f"{prefix}{number:012d}.json"
    try:
        bucket.create(key, lease.to_json())
    except ObjectExistsError:
        _refuse(stream, _read(bucket, key) or lease, now)
    bucket.delete([older for older in _numbered(bucket, stream) if older < key])
    return Held(bucket, stream, key, lease)


def _read(bucket: Bucket, key: str) -> Lease | None:
    try:
        return Lease.model_validate_json(bucket.get(key))
    except ObjectMissingError:
        return None
    except ValidationError:
        msg = f"the remover's lease {key} cannot be read, so nobody knows whether somebody is removing."
        raise HeldError(msg, "Delete the object once no remover runs.") from None


def _newest(bucket: Bucket, stream: str) -> str:
    return max(_numbered(bucket, stream), default="")


def _numbered(bucket: Bucket, stream: str) -> list[str]:
    return [item.key for item in bucket.list(keys.leases(stream)) if _NUMBERED.search(item.key)]


def _refuse(stream: str, lease: Lease, now: int) -> None:
    left = max(0, lease.expires - now) // 1000
    msg = f"stream {stream}: {lease.owner} is removing, and has the lease for another {left} s."
    raise HeldError(msg, "Wait for it; if it is dead, its lease runs out by itself.")
