"""From a bucket's address to the bucket."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from drystone.bucket.local import LocalBucket
from drystone.bucket.memory import MemoryBucket
from drystone.bucket.protocol import Bucket
from drystone.errors import ConfigError

_KNOWN = "Known: file:///absolute/folder, memory://name."


def open_bucket(url: str) -> Bucket:
    """Return the bucket at `url`, which need not exist yet; opening does no I/O.

    `file:///absolute/folder` is a local folder, written as it is (no percent-encoding). `memory://name` lives in this
    process. Raises ConfigError, which lists the known schemes, for anything else.
    """
    scheme, found, place = url.partition("://")
    opener = _OPENERS.get(scheme)
    if not found or opener is None:
        raise ConfigError(f"bucket {url!r}: no such kind of bucket.", _KNOWN)
    return opener(url, place)


def _open_local(url: str, place: str) -> Bucket:
    if not place.startswith("/") or not place.strip("/"):
        raise ConfigError(f"bucket {url!r}: not the absolute path of a folder.", _KNOWN)
    return LocalBucket(Path(place))


def _open_memory(url: str, place: str) -> Bucket:
    if not place or "/" in place:
        raise ConfigError(f"bucket {url!r}: not a name.", _KNOWN)
    return MemoryBucket(place)


_OPENERS: dict[str, Callable[[str, str], Bucket]] = {"file": _open_local, "memory": _open_memory}
