"""Create-only writes: exactly one of several writers wins, and each of them learns whether it did.

Source: the design, "How it is built": each logical write is stamped with an id once, in the object's own metadata.
Where the store refuses it (412, 409) we read back: our id is success, another's a conflict. After a failure that may
have come after the write, only an object proven ours rescues. What cannot be read back is inconclusive, never a guess.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from enum import Enum
from typing import Any

from drystone.bucket.s3_failures import CAUGHT, code_of, explain, is_missing, is_passing, status_of
from drystone.bucket.s3_store import Store
from drystone.errors import BucketAccessError, BucketError, DrystoneError, ObjectExistsError

ID_NAME = "drystone-write"
"""The object's user metadata that holds the id of the write (`x-amz-meta-drystone-write`)."""
_CONFLICTS = frozenset({"ConditionalRequestConflict", "OperationAborted"})
_LOST = "Another attempt of the whole job is safe: what a writer left behind is never read."


class Owner(Enum):
    """Whose object is under the key."""

    OURS = "ours"
    THEIRS = "theirs"
    NOBODY = "nobody"


def new_id() -> str:
    """Return the id of one logical write: drawn once, however often the write is sent."""
    return secrets.token_hex(16)


def create_only(store: Store, key: str, size: int, write_id: str, send: Callable[[Any], Any]) -> None:
    """Do `send(client)`, which writes `size` bytes under a free key, stamped with `write_id`, until it is settled.

    Returns if our object is there. Raises ObjectExistsError if somebody else's is, and BucketError if that cannot be
    told, or the store does not take it.
    """
    doing = f"create {key!r}"
    for number in range(store.retries.attempts):
        try:
            store.once(send, ("ETag",))
        except CAUGHT as error:
            failure: Exception = error
        else:
            return
        if _is_taken(failure):
            _settle(store, key, size, write_id, failure)
            return
        if _is_conflict(failure):
            if _settled(store, key, size, write_id):
                return
        elif not is_passing(failure):
            raise explain(failure, doing, store.address) from failure
        if number + 1 < store.retries.attempts:
            store.retries.wait(number)
    _rescue(store, key, size, write_id, failure)


def _is_taken(error: Exception) -> bool:
    """Tell whether the key is taken: by us, perhaps. A multipart upload that is over is none any more."""
    return status_of(error) == 412 or code_of(error) in {"PreconditionFailed", "NoSuchUpload"}  # noqa: PLR2004


def _is_conflict(error: Exception) -> bool:
    """Tell whether another write to the same key was under way: the store did neither."""
    return code_of(error) in _CONFLICTS or (status_of(error) == 409 and code_of(error) in {"", "409", "Conflict"})  # noqa: PLR2004


def _settle(store: Store, key: str, size: int, write_id: str, refusal: Exception) -> None:
    """Return if the object that took the key is ours."""
    if not await_own(store, key, size, write_id):
        message = f"the store says that {key!r} is taken ({code_of(refusal)}), and shows no such object: inconclusive."
        raise BucketError(message, _LOST)


def await_own(store: Store, key: str, size: int, write_id: str) -> bool:
    """Tell whether our object is there; wait for it, within bounds, where the store shows it late.

    Raises ObjectExistsError if another's object is there.
    """
    for number in range(store.retries.attempts):
        if _settled(store, key, size, write_id):
            return True
        if number + 1 < store.retries.attempts:
            store.retries.watch(number)
    return False


def _settled(store: Store, key: str, size: int, write_id: str) -> bool:
    """Tell whether our object is there, False if none is; raise ObjectExistsError if another's is."""
    owner = owner_of(store, key, size, write_id)
    if owner is Owner.THEIRS:
        raise ObjectExistsError(key)
    return owner is Owner.OURS


def _rescue(store: Store, key: str, size: int, write_id: str, failure: Exception) -> None:
    """Return if our object is there after all; raise what `failure` means otherwise, whoever's is there."""
    if owner_of(store, key, size, write_id) is not Owner.OURS:
        raised = explain(failure, f"create {key!r}", store.address)
        raised.add_note("Whether it will be written after all is not known.")
        raise raised from failure


def owner_of(store: Store, key: str, size: int, write_id: str) -> Owner:
    """Read back whose object is under the key; raise BucketError, "inconclusive", if that fails.

    The id came with the bytes, whose checksum the store compared: an object of ours is whole. Its size is looked at
    all the same.
    """
    try:
        found = store.ask(
            f"read back {key!r}",
            lambda client: client.head_object(Bucket=store.address.bucket, Key=store.address.full(key)),
            ("ETag", "ContentLength", "LastModified"),
            (is_missing,),
        )
    except CAUGHT:
        return Owner.NOBODY
    except DrystoneError as error:
        message = f"whether {key!r} was created is not known: inconclusive, because it cannot be read back: {error}"
        kind = BucketAccessError if isinstance(error, BucketAccessError) else BucketError
        raise kind(message, _LOST) from error
    if found.get("Metadata", {}).get(ID_NAME) != write_id:
        return Owner.THEIRS
    if found["ContentLength"] != size:
        message = f"{key!r} has {found['ContentLength']} bytes in the bucket, and {size} were sent."
        raise BucketError(message, "The store or what stands before it is broken; run `drystone bucket probe`.")
    return Owner.OURS
