"""The bucket protocol: what Drystone needs of an object store, and nothing more.

Keys are `/`-separated UTF-8 paths without a leading slash, `.` or `..` parts. Every implementation passes the same
tests, tests/bucket/test_conformance*.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object as a listing shows it: its key, its bytes, when it was last modified (ms since the epoch)."""

    key: str
    size: int
    modified: int


class Bucket(Protocol):
    """An object store, or the part of one under a prefix.

    Whole objects only: a reader sees all of an object or none of it, and never a part. All methods may be called from
    several threads and processes at once. A bucket can be pickled; the copy talks to the same objects.
    """

    @property
    def url(self) -> str:
        """The address that `drystone.bucket.open_bucket` opens again."""
        ...

    def uri(self, key: str) -> str:
        """Return the address of an object for other tools: `file:///…/key`, `s3a://bucket/key`."""
        ...

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """Yield every object whose key begins with `prefix` and sorts after `start_after`, in the byte order of keys.

        `start_after` is a whole key, or the beginning of one. Nothing under the prefix yields nothing.
        """
        ...

    def head(self, key: str) -> ObjectInfo:
        """Return what is known of one object; raise ObjectMissingError if there is none."""
        ...

    def get(self, key: str) -> bytes:
        """Return a whole object; raise ObjectMissingError if there is none."""
        ...

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """Return at most `length` bytes from offset `start`, fewer only at the end of the object.

        Raises ObjectMissingError if there is no such object.
        """
        ...

    def put(self, key: str, data: bytes) -> None:
        """Write an object whole, in place of what may be there."""
        ...

    def create(self, key: str, data: bytes) -> None:
        """Write an object only if its key is free; of several that race, exactly one succeeds.

        Raises ObjectExistsError if the key is taken; then nothing was written.
        """
        ...

    def upload(self, key: str, path: Path) -> None:
        """Write a local file as an object, only if its key is free. Large files are never held in memory.

        Raises ObjectExistsError if the key is taken. The local file is left as it is, and must not change afterwards.
        """
        ...

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects, in this order as far as the store keeps one; a key that names nothing is no error.

        Raises BucketError if any of them could not be removed; the others may have been.
        """
        ...


@runtime_checkable
class Versioned(Protocol):
    """A bucket whose store may keep what was deleted or overwritten."""

    def keeps_versions(self) -> bool | None:
        """Tell whether the store keeps old versions of objects, or has kept some; None if it does not say so to us."""
        ...
