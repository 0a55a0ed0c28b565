"""A bucket whose clients see writes and deletions late, each in an order of its own, but within a bound.

Create-only writes are strict, as in real stores: they are decided by what there is, not by what a client sees. A client
sees at once what it wrote itself, unless it lists. Source: the design, "Visibility: what it rests on" (max_lag).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Literal

from drystone.bucket import Bucket, ObjectInfo
from drystone.clock import Clock
from drystone.errors import ObjectMissingError
from drystone.testing.simulation.choices import fraction

_Way = Literal["get", "list"]


@dataclass(frozen=True, slots=True)
class Change:
    """A write or a deletion: of what, when, by whom, and what was there before (bytes, modified)."""

    number: int
    key: str
    time: int
    by: str
    before: tuple[bytes, int] | None


@dataclass
class Lag:
    """What has changed lately, and how late each client sees it. `max_lag`: ms; 0: nobody sees anything late.

    `watch` is called with each change when it is made.
    """

    seed: int
    clock: Clock
    max_lag: int
    watch: Callable[[Change], None]
    seen_late: int = 0
    _recent: dict[str, list[Change]] = field(default_factory=dict)
    _changes: int = 0

    def changing(self, bucket: Bucket, key: str, by: str, act: Callable[[], None]) -> None:
        """Write or delete an object by `act`, and note that."""
        before = None
        with suppress(ObjectMissingError):
            before = (bucket.get(key), bucket.head(key).modified)
        act()
        self._changes += 1
        change = Change(self._changes, key, self.clock(), by, before)
        if self.max_lag:
            self._recent.setdefault(key, []).append(change)
        self.watch(change)

    def recent(self, prefix: str) -> list[str]:
        """Return the keys with a prefix that somebody may not see as they are."""
        limit = self.clock() - self.max_lag
        for key, changes in list(self._recent.items()):
            if changes[-1].time < limit:
                del self._recent[key]
        return [key for key in self._recent if key.startswith(prefix)]

    def unseen(self, key: str, client: str, way: _Way) -> Change | None:
        """Return the first change of an object that the client does not see yet; None if it sees it as it is."""
        first = None
        for change in self._recent.get(key, ()):
            if self._sees(change, client, way):
                first = None
            elif first is None:
                first = change
        if first is not None:
            self.seen_late += 1
        return first

    def _sees(self, change: Change, client: str, way: _Way) -> bool:
        if way == "get" and change.by == client:
            return True
        chance = fraction(self.seed, client, change.number, way)
        # Half of all changes are seen at once, the others at any time within the bound.
        return change.time + max(0.0, 2 * chance - 1) * self.max_lag <= self.clock()


class LaggingBucket:
    """One client's view of a bucket. See `Bucket`."""

    def __init__(self, inner: Bucket, lag: Lag, client: str) -> None:
        """`inner`: the bucket as it is; `lag`: shared by all clients."""
        self._inner = inner
        self._lag = lag
        self._client = client

    @property
    def url(self) -> str:
        """See `Bucket.url`."""
        return self._inner.url

    def uri(self, key: str) -> str:
        """See `Bucket.uri`."""
        return self._inner.uri(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See `Bucket.list`. It shows one moment, as far as lag lets it."""
        found = {item.key: item for item in self._inner.list(prefix, start_after)}
        late = False
        for key in self._lag.recent(prefix):
            change = self._lag.unseen(key, self._client, "list")
            if change is None or key <= start_after:
                continue
            late = True
            if change.before is None:
                found.pop(key, None)
            else:
                found[key] = ObjectInfo(key, len(change.before[0]), change.before[1])
        yield from sorted(found.values(), key=lambda item: item.key) if late else found.values()

    def head(self, key: str) -> ObjectInfo:
        """See `Bucket.head`."""
        change = self._lag.unseen(key, self._client, "get")
        if change is None:
            return self._inner.head(key)
        if change.before is None:
            raise ObjectMissingError(key)
        return ObjectInfo(key, len(change.before[0]), change.before[1])

    def get(self, key: str) -> bytes:
        """See `Bucket.get`."""
        change = self._lag.unseen(key, self._client, "get")
        if change is None:
            return self._inner.get(key)
        if change.before is None:
            raise ObjectMissingError(key)
        return change.before[0]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See `Bucket.get_range`."""
        return self.get(key)[start : start + length]

    def put(self, key: str, data: bytes) -> None:
        """See `Bucket.put`."""
        self._change(key, lambda: self._inner.put(key, data))

    def create(self, key: str, data: bytes) -> None:
        """See `Bucket.create`."""
        self._change(key, lambda: self._inner.create(key, data))

    def upload(self, key: str, path: Path) -> None:
        """See `Bucket.upload`."""
        self._change(key, lambda: self._inner.upload(key, path))

    def delete(self, keys: Iterable[str]) -> None:
        """See `Bucket.delete`."""
        for key in keys:
            with suppress(ObjectMissingError):
                self._inner.head(key)
                self._change(key, partial(self._inner.delete, [key]))

    def _change(self, key: str, act: Callable[[], None]) -> None:
        self._lag.changing(self._inner, key, self._client, act)
