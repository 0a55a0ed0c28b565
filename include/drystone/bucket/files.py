"""Objects as files, for libraries that read files: Arrow and Parquet."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING

import pyarrow as pa

from drystone.bucket.failures import reading
from drystone.bucket.local import LocalBucket
from drystone.bucket.protocol import Bucket
from drystone.errors import BucketError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

READ_AHEAD = 256 << 10
"""Bytes: the neighbouring columns of a small row group come with one request."""


def open_input(bucket: Bucket, key: str, size: int) -> pa.NativeFile:
    """Return an object of `size` bytes as a seekable Arrow file to read from.

    An object in a local folder is read in place, by several threads at once; any other by ranges, see `BucketFile`.
    Raises ObjectMissingError (now or at the first read, as the store allows), and BucketError if the object is not of
    this size.
    """
    if not isinstance(bucket, LocalBucket):
        return pa.PythonFile(BucketFile(bucket, key, size), mode="r")
    found = bucket.head(key).size
    if found != size:
        raise _wrong_size(key, size, found)
    path = bucket.path(key)
    with reading(key, path):
        return pa.OSFile(str(path), mode="r")


class BucketFile(io.RawIOBase):
    """One object as a seekable binary file to read from; not for several threads at once.

    Each read returns all that was asked for, short only at the end. A read of less than `READ_AHEAD` bytes fetches that
    much and keeps it for the reads that follow; a larger one fetches just its own range. Opening fetches nothing.
    Errors are those of `Bucket.get_range`, and BucketError if the object ends before `size`.
    """

    def __init__(self, bucket: Bucket, key: str, size: int) -> None:
        """`size`: the object's bytes, as a listing or its block's metadata told."""
        super().__init__()
        self._bucket = bucket
        self._key = key
        self._size = size
        self._position = 0
        self._kept = b""
        self._kept_at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the offset of the next byte."""
        self._check_open()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to `offset` from the start, from here or from the end; return the new offset from the start."""
        self._check_open()
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}
        if whence not in base or base[whence] + offset < 0:
            message = f"cannot seek to {offset} (whence {whence}) in {self._size} bytes"
            raise ValueError(message)
        self._position = base[whence] + offset
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """Return the next `size` bytes, fewer only at the end; all that are left for -1 or None."""
        self._check_open()
        rest = max(0, self._size - self._position)
        length = rest if size is None or size < 0 else min(size, rest)
        data = self._range(self._position, length)
        self._position += length
        return data

    def readall(self) -> bytes:
        """Return all that is left."""
        return self.read()

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Fill `buffer` with the next bytes, short only at the end; return how many."""
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Forget what was read ahead; twice is fine."""
        self._kept = b""
        super().close()

    def _check_open(self) -> None:
        if self.closed:
            message = f"{self._key} was closed"
            raise ValueError(message)

    def _range(self, start: int, length: int) -> bytes:
        if not length:
            return b""
        if length >= READ_AHEAD:
            return self._fetch(start, length)
        skipped = start - self._kept_at
        if skipped < 0 or skipped + length > len(self._kept):
            self._kept = self._fetch(start, min(READ_AHEAD, self._size - start))
            self._kept_at, skipped = start, 0
        return self._kept[skipped : skipped + length]

    def _fetch(self, start: int, length: int) -> bytes:
        data = self._bucket.get_range(self._key, start, length)
        if len(data) != length:
            raise _wrong_size(self._key, self._size, start + len(data))
        return data


def _wrong_size(key: str, expected: int, found: int) -> BucketError:
    message = f"object {key!r} should have {expected:,} bytes, and ends after {found:,}."
    return BucketError(message, "It was replaced or damaged; verify its block.")
