"""Buckets on the real S3 server of the tests."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from drystone.bucket.protocol import ObjectInfo
from drystone.bucket.s3 import S3Bucket
from drystone.bucket.s3_credentials import Credentials
from drystone.bucket.s3_store import Retries
from drystone.clock import Clock
from drystone.testing.s3_proxy import S3Proxy
from drystone.testing.s3_server import S3Server

SHORT_PAGES = 7
"""Keys of a LIST page: few, so that every listing of more than a handful of objects takes several."""


def new_bucket(
    server: S3Server,
    *,
    page_keys: int = SHORT_PAGES,
    credentials: Credentials | None = None,
    retries: Retries | None = None,
) -> S3Bucket:
    """Return an empty bucket: a prefix that nobody has used. Without credentials those of the environment hold."""
    address = server.address(prefix=f"of a test/{secrets.token_hex(8)}")
    return S3Bucket(address, credentials=credentials, page_keys=page_keys, retries=retries)


def always_most() -> float:
    """Return the highest number on the dice."""
    return 1.0


class Waits(list[float]):
    """Notes how long was to be waited, and does not wait."""

    def retries(self, attempts: int = 5) -> Retries:
        """Return retries that end up here."""
        return Retries(attempts, sleep=self.append, dice=always_most)


def behind(proxy: S3Proxy, server: S3Server, retries: Retries | None = None) -> S3Bucket:
    """Return an empty bucket that is reached through a proxy."""
    address = replace(new_bucket(server)._address, endpoint=proxy.endpoint)
    return S3Bucket(
        address, credentials=server.credentials, retries=retries or Waits().retries(), page_keys=SHORT_PAGES
    )


def open_uploads(bucket: S3Bucket) -> list[str]:
    """Return the keys of the multipart uploads under a bucket's prefix that are neither complete nor given up."""
    address = bucket._address
    found = bucket._store.client().list_multipart_uploads(Bucket=address.bucket, Prefix=address.root)
    return [each["Key"] for each in found.get("Uploads", ())]


def file_of(folder: Path, size: int) -> Path:
    """Return a file of so many bytes, different ones in each part."""
    path = folder / f"staged-{size}"
    pattern = bytes(range(256)) * 4096 + b"x"
    path.write_bytes((pattern * (size // len(pattern) + 1))[:size])
    return path


class Dated(S3Bucket):
    """An S3 bucket whose objects have the times of a clock of the test's, at which they were written by this one."""

    def __init__(self, server: S3Server, clock: Clock) -> None:
        """Begin empty."""
        super().__init__(new_bucket(server)._address, credentials=server.credentials, page_keys=SHORT_PAGES)
        self._now = clock
        self._times: dict[str, int] = {}

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See `Bucket.list`."""
        for found in super().list(prefix, start_after):
            yield self._dated(found)

    def head(self, key: str) -> ObjectInfo:
        """See `Bucket.head`."""
        return self._dated(super().head(key))

    def put(self, key: str, data: bytes) -> None:
        """See `Bucket.put`."""
        super().put(key, data)
        self._times[key] = self._now()

    def create(self, key: str, data: bytes) -> None:
        """See `Bucket.create`."""
        super().create(key, data)
        self._times[key] = self._now()

    def _dated(self, found: ObjectInfo) -> ObjectInfo:
        return replace(found, modified=self._times[found.key])
