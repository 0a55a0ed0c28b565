"""From a bucket's address to the bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from drystone.bucket.local import LocalBucket
from drystone.bucket.memory import MemoryBucket
from drystone.bucket.protocol import Bucket
from drystone.bucket.s3_address import FORM
from drystone.config.complaints import without_secrets
from drystone.errors import ConfigError

_KNOWN = f"Known: file:///absolute/folder, memory://name, {FORM}."


def open_bucket(url: str) -> Bucket:
    """Return the bucket at `url`, which need not exist yet; opening does no I/O.

    `file:///absolute/folder` is a local folder, written as it is (no percent-encoding). `memory://name` lives in this
    process. `s3://bucket/prefix?endpoint=…&region=…&path_style=true&sse=AES256` is a part of an S3 bucket; credentials
    come from boto3's own chain. Raises ConfigError, which lists the known schemes, for anything else.
    """
    scheme, found, place = url.partition("://")
    opener = _OPENERS.get(scheme)
    if not found or opener is None:
        raise ConfigError(f"bucket {without_secrets(url)!r}: no such kind of bucket.", _KNOWN)
    return opener(url, place)


def _open_local(url: str, place: str) -> Bucket:
    if not place.startswith("/") or not place.strip("/"):
        raise ConfigError(f"bucket {without_secrets(url)!r}: not the absolute path of a folder.", _KNOWN)
    return LocalBucket(Path(place))


def _open_memory(url: str, place: str) -> Bucket:
    if not place or "/" in place:
        raise ConfigError(f"bucket {without_secrets(url)!r}: not a name.", _KNOWN)
    return MemoryBucket(place)


def _open_s3(url: str, _: str) -> Bucket:
    # boto3 takes a third of a second to import: only those wait who need it.
    from drystone.bucket.s3 import S3Bucket  # noqa: PLC0415

    return S3Bucket(url)


_OPENERS: dict[str, Callable[[str, str], Bucket]] = {"file": _open_local, "memory": _open_memory, "s3": _open_s3}
