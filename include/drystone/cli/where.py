"""Where a stream is: by the configuration file, or by a bucket's address alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from drystone.block import keys
from drystone.bucket.open import open_bucket
from drystone.bucket.protocol import Bucket
from drystone.config.load import load
from drystone.errors import ObjectMissingError, UsageError


def bucket_of(stream: str, config: Path | None, url: str | None) -> Bucket:
    """Return the bucket that holds `stream`: the one at `url`, else the one that the configuration names."""
    if url is not None:
        return _bucket_at(url, config)
    return open_bucket(load(config).bucket_url(stream))


def generation_of(stream: str, config: Path | None, url: str | None, asked: int | None) -> int | None:
    """Return the generation to read: the one asked for, else the configured one; None (the newest) with a `url`."""
    if asked is not None or url is not None:
        return asked
    return load(config).stream(stream).generation


def streams(config: Path | None, url: str | None) -> list[tuple[str, Bucket]]:
    """Return all streams of the configuration, or of the bucket at `url`, sorted by name, each with its bucket."""
    if url is not None:
        bucket = _bucket_at(url, config)
        return [(name, bucket) for name in _recorded(bucket)]
    loaded = load(config)
    return [(name, open_bucket(loaded.bucket_url(name))) for name in sorted(loaded.config.streams)]


def _bucket_at(url: str, config: Path | None) -> Bucket:
    if config is not None:
        raise UsageError("--config and --bucket say both where the stream is.", "Give one of them.")
    return bucket_at(url)


def bucket_at(url: str) -> Bucket:
    """Return the bucket at an address that was typed; a relative folder is one below the current one."""
    if url.startswith("file:"):
        # As in the configuration file, a relative folder is one below the place where the address is written.
        url = f"file://{Path(url.removeprefix('file://').removeprefix('file:')).expanduser().resolve()}"
    return open_bucket(url)


def _recorded(bucket: Bucket) -> Iterator[str]:
    """Yield every top-level folder of the bucket that holds a stream record, with one short listing for each."""
    after = ""
    while (found := next(bucket.list("", start_after=after), None)) is not None:
        name, slash, _ = found.key.partition("/")
        # "0" follows "/": the next listing begins behind everything in this folder.
        after = f"{name}0" if slash else found.key
        if slash and _is_stream(bucket, name):
            yield name


def _is_stream(bucket: Bucket, name: str) -> bool:
    try:
        bucket.head(keys.record(name))
    except ObjectMissingError:
        return False
    return True
