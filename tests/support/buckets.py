"""Buckets that remember what was asked of them, and buckets that fail when they are told to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from drystone.bucket import Bucket
from drystone.bucket.protocol import ObjectInfo
from drystone.errors import BucketError, ObjectMissingError

WRITES = frozenset({"put", "create", "upload"})


@dataclass(frozen=True)
class Call:
    """One call: the verb, the key or prefix, and the bytes that were read."""

    verb: str
    key: str
    size: int = 0


@dataclass
class Spy:
    """A bucket that notes its calls, and runs `before(call)` first, which may raise, or change what is there."""

    inner: Bucket
    before: Callable[[Call], None] = lambda _: None
    calls: list[Call] = field(default_factory=list)

    def _note(self, verb: str, key: str, size: int = 0) -> None:
        call = Call(verb, key, size)
        self.before(call)
        self.calls.append(call)

    def writes(self) -> list[str]:
        """Return the keys that were written, in order."""
        return [call.key for call in self.calls if call.verb in WRITES]

    def of(self, *verbs: str) -> list[str]:
        """Return the keys of the calls of these verbs, in order."""
        return [call.key for call in self.calls if call.verb in verbs]

    @property
    def url(self) -> str:
        """See Bucket."""
        return self.inner.url

    def uri(self, key: str) -> str:
        """See Bucket."""
        return self.inner.uri(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See Bucket."""
        self._note("list", prefix)
        return self.inner.list(prefix, start_after)

    def head(self, key: str) -> ObjectInfo:
        """See Bucket."""
        self._note("head", key)
        return self.inner.head(key)

    def get(self, key: str) -> bytes:
        """See Bucket."""
        self.before(Call("get", key))
        found = self.inner.get(key)
        self.calls.append(Call("get", key, len(found)))
        return found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See Bucket."""
        self.before(Call("get_range", key))
        found = self.inner.get_range(key, start, length)
        self.calls.append(Call("get_range", key, len(found)))
        return found

    def put(self, key: str, data: bytes) -> None:
        """See Bucket."""
        self._note("put", key)
        self.inner.put(key, data)

    def create(self, key: str, data: bytes) -> None:
        """See Bucket."""
        self._note("create", key)
        self.inner.create(key, data)

    def upload(self, key: str, path: Path) -> None:
        """See Bucket."""
        self._note("upload", key)
        self.inner.upload(key, path)

    def delete(self, keys: Iterable[str]) -> None:
        """See Bucket; noted key by key."""
        for key in keys:
            self._note("delete", key)
            self.inner.delete([key])


def failing(number: int, verbs: Iterable[str]) -> Callable[[Call], None]:
    """Return a `before` that fails at the call of this number (from 0) among these verbs, and lets all others pass."""
    wanted, seen = frozenset(verbs), [0]

    def before(call: Call) -> None:
        if call.verb in wanted:
            seen[0] += 1
            if seen[0] == number + 1:
                raise BucketError(f"the store failed at {call.verb} {call.key}.")

    return before


def killed_at_write(number: int) -> Callable[[Call], None]:
    """Return a `before` of a process that is killed at its write of this number (from 0): none comes after it."""
    seen = [0]

    def before(call: Call) -> None:
        seen[0] += call.verb in WRITES
        if seen[0] > number:
            raise BucketError(f"killed at {call.verb} {call.key}.")

    return before


def meanwhile(step: int, act: Callable[[], object], since: str = "") -> Callable[[Call], None]:
    """Return a `before` that acts once, before the write of this number from the first key that ends in `since`."""
    seen, begun = [0], [not since]

    def before(call: Call) -> None:
        begun[0] |= call.key.endswith(since)
        seen[0] += begun[0] and call.verb in WRITES
        if seen[0] == step + 1:
            seen[0] += 1000
            act()

    return before


def blind_to(key: str) -> Callable[[Call], None]:
    """Return a `before` of a client that does not see this object yet."""

    def before(call: Call) -> None:
        if call.verb == "get" and call.key == key:
            raise ObjectMissingError(key)

    return before


def objects(bucket: Bucket, prefix: str = "") -> dict[str, bytes]:
    """Return everything under a prefix, by key."""
    return {item.key: bucket.get(item.key) for item in bucket.list(prefix)}
