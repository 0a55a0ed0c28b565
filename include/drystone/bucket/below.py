"""The folders below a prefix, without listing what is in them."""

from __future__ import annotations

from collections.abc import Iterator

from drystone.bucket.protocol import Bucket


def folders_below(bucket: Bucket, prefix: str) -> Iterator[str]:
    """Yield the name of each folder right below `prefix`, which ends with a slash, by one short listing for each."""
    after = prefix
    while (found := next(bucket.list(prefix, start_after=after), None)) is not None:
        name, slash, _ = found.key.removeprefix(prefix).partition("/")
        # "0" follows "/": the next listing begins behind everything in this folder.
        after = f"{prefix}{name}0" if slash else found.key
        if slash:
            yield name
