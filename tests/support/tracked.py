"""A stream that is written by hand, with its tracker, over a bucket that counts what is asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from drystone import ulids
from drystone.block import keys
from drystone.block.marks import DELETION_MARK, DeletionMark
from drystone.block.meta import META_FILE
from drystone.bucket.protocol import Bucket, ObjectInfo
from drystone.testing.folders import CHUNK_FILE, STREAM, meta_of
from drystone.testing.streams import ManualClock
from drystone.timeline.blocks import Block
from drystone.tracker import ListingTracker

NOW = 1_700_000_000_000


@dataclass
class Counting:
    """A bucket that notes each key that is read and each prefix that is listed."""

    inner: Bucket
    gets: list[str] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """See `Bucket.url`."""
        return self.inner.url

    def uri(self, key: str) -> str:
        """See `Bucket.uri`."""
        return self.inner.uri(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See `Bucket.list`."""
        self.lists.append(prefix)
        return self.inner.list(prefix, start_after)

    def head(self, key: str) -> ObjectInfo:
        """See `Bucket.head`."""
        return self.inner.head(key)

    def get(self, key: str) -> bytes:
        """See `Bucket.get`."""
        self.gets.append(key)
        return self.inner.get(key)

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See `Bucket.get_range`."""
        return self.inner.get_range(key, start, length)

    def put(self, key: str, data: bytes) -> None:
        """See `Bucket.put`."""
        self.inner.put(key, data)

    def create(self, key: str, data: bytes) -> None:
        """See `Bucket.create`."""
        self.inner.create(key, data)

    def upload(self, key: str, path: Path) -> None:
        """See `Bucket.upload`."""
        self.inner.upload(key, path)

    def delete(self, keys: Iterable[str]) -> None:
        """See `Bucket.delete`."""
        self.inner.delete(keys)


@dataclass
class Stream:
    """A stream that is written by hand, and the tracker that observes it."""

    bucket: Counting
    clock: ManualClock
    tracker: ListingTracker

    def block(self, name: str = "a", *, chunk: bytes = b"rows") -> str:
        """Write a whole block, and return its ULID."""
        ulid = ulids.derive(self.clock.now, name)
        block = Block(ulid, 0, 1000, frozenset({ulids.derive(0, name)}), 0, ulid, rows=4)
        self.bucket.create(keys.block(STREAM, ulid, CHUNK_FILE), chunk)
        self.bucket.create(keys.block(STREAM, ulid, META_FILE), meta_of(block, len(chunk)).to_json())
        return ulid

    def mark(self, ulid: str, *, as_block: str = "") -> None:
        """Mark a block for deletion."""
        note = DeletionMark(id=as_block or ulid, deletion_time=self.clock.now // 1000)
        self.bucket.put(keys.block(STREAM, ulid, DELETION_MARK), note.to_json())

    def asked(self) -> Counter[str]:
        """Return how often each object was read since the last call."""
        found = Counter(key.removeprefix(keys.blocks(STREAM)) for key in self.bucket.gets)
        self.bucket.gets.clear()
        return found
