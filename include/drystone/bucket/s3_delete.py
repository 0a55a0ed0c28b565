"""Deleting many objects: with few requests, and still in the order that matters.

S3's batch delete has no order, and can fail for some of its keys. A deletion that stops half-way must be seen as one
(the design, rule 8): a block's meta.json must be gone before its data, and its data before its deletion mark. So the
keys that say what a block is go alone, one request each, and batches hold only what lies between two of them; nothing
is sent before all that stands before it is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from drystone.block.marks import DELETION_MARK, NO_COMPACT_MARK, NO_DOWNSAMPLE_MARK
from drystone.block.meta import META_FILE
from drystone.bucket.s3_failures import TornAnswerError
from drystone.bucket.s3_store import Store
from drystone.errors import BucketAccessError, BucketError

BATCH_KEYS = 1000
"""The most that S3 takes at once."""
_ALONE = frozenset({META_FILE, DELETION_MARK, NO_COMPACT_MARK, NO_DOWNSAMPLE_MARK})
_LOWEST = " "
"""XML has no name for the characters below, so a batch cannot hold a key with one."""
_SHOWN = 3


def batches(keys: Iterable[str]) -> Iterator[list[str]]:
    """Yield the keys in order, in the groups that may be deleted at once."""
    batch: list[str] = []
    for key in keys:
        alone = key.rpartition("/")[2] in _ALONE or any(letter < _LOWEST or letter in "\ufffe\uffff" for letter in key)
        if batch and (alone or len(batch) == BATCH_KEYS):
            yield batch
            batch = []
        if alone:
            yield [key]
        else:
            batch.append(key)
    if batch:
        yield batch


def delete_batch(store: Store, keys: list[str]) -> None:
    """Delete these objects, in no order; raise BucketError that names what could not be deleted."""
    if len(keys) == 1:
        call = {"Bucket": store.address.bucket, "Key": store.address.full(keys[0])}
        store.ask(f"delete {keys[0]!r}", lambda client: client.delete_object(**call), ())
        return
    left = {store.address.full(key): key for key in keys}
    for number in range(store.retries.attempts):
        codes = _delete_many(store, left)
        if not codes:
            return
        left = {full: left[full] for full in codes}
        if "AccessDenied" in codes.values():
            raise BucketAccessError(
                f"cannot delete {_some(left, codes)} in {store.address.place}: these credentials may not do that.",
                "Grant the role the rights that docs/how-to/use-s3.md lists for it.",
            )
        if number + 1 < store.retries.attempts:
            store.retries.wait(number)
    message = (
        f"cannot delete {_some(left, codes)} in {store.address.place}; {len(keys) - len(left)} others are deleted."
    )
    raise BucketError(message, "Another attempt may succeed.")


def _delete_many(store: Store, keys: dict[str, str]) -> dict[str, str]:
    """Send one batch; return the full keys that are not deleted, each with the store's reason."""

    def call(client: Any) -> Any:
        answer = client.delete_objects(
            Bucket=store.address.bucket, Delete={"Objects": [{"Key": key} for key in keys], "Quiet": False}
        )
        # What is neither deleted nor refused was not answered for. Deleting twice does no harm.
        told = {found.get("Key") for part in ("Deleted", "Errors") for found in answer.get(part, ())}
        if not told >= keys.keys():
            raise TornAnswerError("the answer does not tell of all keys")
        return answer

    answer = store.ask(f"delete {len(keys)} objects", call, ())
    return {found["Key"]: str(found.get("Code", "")) for found in answer.get("Errors", ()) if found["Key"] in keys}


def _some(left: dict[str, str], codes: dict[str, str]) -> str:
    named = [f"{key!r} ({codes[full]})" for full, key in list(left.items())[:_SHOWN]]
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    return ", ".join(named) + more
