"""A bucket in this process's memory: for tests and simulations."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Lock

from drystone.bucket.names import check_key, check_range
from drystone.bucket.protocol import ObjectInfo
from drystone.bucket.sources import open_source
from drystone.clock import Clock, system
from drystone.errors import BucketError, ObjectExistsError, ObjectMissingError


class _Store:
    """The objects of one name: shared by all buckets of that name, and kept as long as the process lives."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.clock: Clock = system
        self.objects: dict[str, tuple[bytes, int]] = {}
        self.keys: list[str] = []


_stores: dict[str, _Store] = {}
_stores_lock = Lock()


class MemoryBucket:
    """All buckets of one name in a process are the same one; they live as long as the process does.

    Every method is atomic against the others, a listing included: it shows one moment. A pickled one opens again in the
    same process only, and raises BucketError elsewhere rather than be an empty bucket. Keys sort by code points, which
    is their byte order.
    """

    def __init__(self, name: str, clock: Clock | None = None) -> None:
        """`clock`: gives objects their times from now on, for all buckets of this name (first: the system's)."""
        self._name = name
        with _stores_lock:
            self._store = _stores.setdefault(name, _Store())
        if clock is not None:
            self._store.clock = clock

    def __repr__(self) -> str:
        """Name the bucket."""
        return f"MemoryBucket({self._name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the name, and the process that it means something in."""
        return _reopen, (self._name, os.getpid())

    @property
    def url(self) -> str:
        """`memory://` and the name."""
        return f"memory://{self._name}"

    def uri(self, key: str) -> str:
        """`memory://`, the name and the key: no other tool can open it."""
        return f"{self.url}/{check_key(key)}"

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See `Bucket.list`."""
        yield from self._listing(prefix, start_after)

    def head(self, key: str) -> ObjectInfo:
        """See `Bucket.head`."""
        data, modified = self._object(key)
        return ObjectInfo(key, len(data), modified)

    def get(self, key: str) -> bytes:
        """See `Bucket.get`."""
        return self._object(key)[0]

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See `Bucket.get_range`."""
        check_range(start, length)
        return self._object(key)[0][start : start + length]

    def put(self, key: str, data: bytes) -> None:
        """See `Bucket.put`."""
        self._write(key, data, create=False)

    def create(self, key: str, data: bytes) -> None:
        """See `Bucket.create`."""
        self._write(key, data, create=True)

    def upload(self, key: str, path: Path) -> None:
        """See `Bucket.upload`. Here, of course, a large file is held in memory."""
        check_key(key)
        with open_source(path) as source:
            self._write(key, source.read(), create=True)

    def delete(self, keys: Iterable[str]) -> None:
        """See `Bucket.delete`. Strictly in order."""
        for key in keys:
            check_key(key)
            with self._store.lock:
                if self._store.objects.pop(key, None) is not None:
                    del self._store.keys[bisect_left(self._store.keys, key)]

    def _object(self, key: str) -> tuple[bytes, int]:
        check_key(key)
        with self._store.lock:
            try:
                return self._store.objects[key]
            except KeyError:
                raise ObjectMissingError(key) from None

    def _write(self, key: str, data: bytes, *, create: bool) -> None:
        check_key(key)
        store = self._store
        with store.lock:
            if key not in store.objects:
                insort(store.keys, key)
            elif create:
                raise ObjectExistsError(key)
            store.objects[key] = (data, store.clock())

    def _listing(self, prefix: str, start_after: str) -> tuple[ObjectInfo, ...]:
        found = []
        with self._store.lock:
            keys = self._store.keys
            for position in range(max(bisect_left(keys, prefix), bisect_right(keys, start_after)), len(keys)):
                key = keys[position]
                if not key.startswith(prefix):
                    break
                data, modified = self._store.objects[key]
                found.append(ObjectInfo(key, len(data), modified))
        return tuple(found)


def _reopen(name: str, process: int) -> MemoryBucket:
    if process != os.getpid():
        message = f"memory://{name} lives in process {process} and cannot be opened in process {os.getpid()}."
        raise BucketError(message, "Use a file:// bucket for what several processes work on.")
    return MemoryBucket(name)
