"""Listing, page by page, in the byte order of keys."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from drystone.bucket.names import fits, is_key
from drystone.bucket.protocol import ObjectInfo
from drystone.bucket.s3_store import Store
from drystone.errors import BucketError, UnfitBucketError

PAGE_KEYS = 1000
"""The most that S3 gives at once."""
_SECOND = 1000


def listing(store: Store, prefix: str, start_after: str, page_keys: int) -> Iterator[ObjectInfo]:
    """Yield the objects, see `Bucket.list`. Keys that no bucket takes, such as a console's `folder/`, are left out.

    A page of a truncated listing may be empty. Raises BucketError if the store does not keep the byte order of keys,
    or does not get on.
    """
    root = store.address.root
    folder = prefix[: prefix.rfind("/") + 1]
    if not fits(prefix) or not fits(start_after) or (folder and not is_key(folder[:-1])):
        return
    last, token = "", ""
    while True:
        page = _page(store, root + prefix, root + start_after if start_after else "", token, page_keys)
        for found in page.get("Contents", ()):
            key = str(found["Key"])
            if key <= last:
                _disorder(store, key, last)
            last = key
            name = key.removeprefix(root)
            if is_key(name) and name > start_after:
                yield ObjectInfo(name, int(found["Size"]), modified(found["LastModified"]))
        if not page["IsTruncated"]:
            return
        if page.get("NextContinuationToken") in {None, "", token}:
            message = f"a listing of {store.address.place} is cut off, and the store does not say how to get on."
            raise BucketError(message, "Run `drystone bucket probe` on this store.")
        token = page["NextContinuationToken"]


def modified(moment: datetime) -> int:
    """Return the end of the second that the store tells, in ms.

    HEAD knows whole seconds only. An object that looks younger than it is does no harm; one that looks older could be
    read, or deleted, too early.
    """
    return int(moment.timestamp()) * _SECOND + _SECOND - 1


def _page(store: Store, prefix: str, start_after: str, token: str, page_keys: int) -> Any:
    wanted: dict[str, object] = {"Bucket": store.address.bucket, "Prefix": prefix, "MaxKeys": page_keys}
    if token:
        wanted["ContinuationToken"] = token
    elif start_after:
        wanted["StartAfter"] = start_after
    return store.ask(f"list {prefix!r}", lambda client: client.list_objects_v2(**wanted), ("IsTruncated",))


def _disorder(store: Store, key: str, last: str) -> None:
    message = f"{store.address.place} lists {key!r} after {last!r}: not in the byte order of keys, or twice."
    raise UnfitBucketError(message, "Drystone cannot work on such a store; run `drystone bucket probe` on it.")
