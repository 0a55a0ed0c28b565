"""Marking, unmarking and deleting: the remover's acts, each with a second look right before it.

Source: the design, rules 7 and 8, and "Guards: the remover asks again". Doing an act twice ends in the same state.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from pydantic import ValidationError

from drystone.block import guards, keys, marks
from drystone.block.folder import FileFacts, fingerprint
from drystone.block.meta import META_FILE
from drystone.bucket.protocol import Bucket
from drystone.engine.second_look import SecondLook
from drystone.errors import ObjectExistsError, ObjectMissingError, UnreadableBlockError
from drystone.plan.model import Delete, Mark, Unmark

G = TypeVar("G", guards.Hold, guards.Pin)


def mark(look: SecondLook, action: Mark) -> str:
    """Write the block's deletion mark; return "" if it is there (now), else why it was not written.

    A hold that has come up since the plan was made keeps the mark off: it may be there because of one.
    """
    bucket, stream, now = look.bucket, look.stream, look.clock()
    refusal = _held(bucket, stream, action.ulid, now) or _unmet(look, action.needs)
    if not refusal and not _exists(bucket, keys.block(stream, action.ulid, META_FILE)):
        refusal = "its meta.json is gone"
    if refusal:
        return refusal
    # Whole seconds, rounded up: deleteDelay is never shortened.
    note = marks.DeletionMark(id=action.ulid, details=action.reason, deletion_time=-(-now // 1000))
    try:
        bucket.create(keys.block(stream, action.ulid, marks.DELETION_MARK), note.to_json())
    except ObjectExistsError:
        return ""
    return ""


def unmark(bucket: Bucket, stream: str, action: Unmark) -> str:
    """Remove the block's deletion mark, unless its deletion has begun; return "" or why it was left."""
    if not _exists(bucket, keys.block(stream, action.ulid, META_FILE)):
        return "its deletion has begun"
    bucket.delete([keys.block(stream, action.ulid, marks.DELETION_MARK)])
    return ""


def delete(look: SecondLook, action: Delete, delete_delay: int) -> str:
    """Delete a block's folder: meta.json first, then the data, the mark last. Return "" or why it was left.

    Looks again first: that every block in `needs` is still whole and has no mark, that no pin or hold has come up since
    the plan was made, that the mark is still there and old enough, that what had no meta.json still has none and nobody
    writes to it, that what was judged by a person is as it was. A guard that cannot be read keeps the block, and so
    does a look that is over before the delete: the process slept.
    """
    bucket, stream, now = look.bucket, look.stream, look.clock()
    refusal = _unmet(look, action.needs) or _guarded(bucket, stream, action, now)
    if not refusal and action.kind == "marked":
        refusal = _not_due(bucket, stream, action.ulid, now, delete_delay)
    if refusal:
        return refusal
    prefix = keys.block(stream, action.ulid)
    found = {item.key.removeprefix(prefix): FileFacts(item.size, item.modified) for item in bucket.list(prefix)}
    if action.kind not in {"marked", "malformed"} and META_FILE in found:
        return "it is whole now"
    if action.kind == "partial" and any(facts.modified + delete_delay > now for facts in found.values()):
        return "somebody is writing to it"
    if action.seen and found and fingerprint(found) != action.seen:
        return "it has changed since it was planned"
    if look.is_stale(now, action.needs):
        return "the second look took too long, and may not be true any more"
    bucket.delete([prefix + name for name in deletion_order(list(found))])
    return ""


def deletion_order(names: Sequence[str]) -> list[str]:
    """Return the files of a block in the order in which they must go: what half a deletion leaves must show as one."""
    last = (marks.NO_COMPACT_MARK, marks.NO_DOWNSAMPLE_MARK, marks.DELETION_MARK)
    return sorted(names, key=lambda name: (name != META_FILE, last.index(name) if name in last else -1, name))


def _not_due(bucket: Bucket, stream: str, ulid: str, now: int, delete_delay: int) -> str:
    try:
        raw = bucket.get(keys.block(stream, ulid, marks.DELETION_MARK))
        written = marks.parse_deletion_mark(raw, ulid).deletion_time * 1000
    except ObjectMissingError:
        return "it is not marked any more"
    except UnreadableBlockError as error:
        return str(error)
    return "" if written + delete_delay <= now else "it was marked again"


def _guarded(bucket: Bucket, stream: str, action: Delete, now: int) -> str:
    held = _held(bucket, stream, action.ulid, now)
    if held or action.kind == "unfinished":
        return held
    if any(pin.expires > now for pin in _guards(bucket, keys.pins(stream), guards.Pin)):
        return "a long read has pinned the stream"
    return ""


def _held(bucket: Bucket, stream: str, ulid: str, now: int) -> str:
    for hold in _guards(bucket, keys.holds(stream), guards.Hold):
        if hold.expires > now and (not hold.blocks or ulid in hold.blocks):
            return f"held by {hold.owner}: {hold.reason}"
    return ""


def _guards(bucket: Bucket, prefix: str, model: type[G]) -> Iterator[G]:
    """Yield the guards that there are; one that cannot be read asks for everything, until a person has looked."""
    for item in bucket.list(prefix):
        try:
            yield model.model_validate_json(bucket.get(item.key))
        except ObjectMissingError:
            continue  # It was taken away since the listing.
        except ValidationError:
            yield model(owner="unknown", reason=f"{item.key} cannot be read", created=0, expires=guards.FOREVER)


def _unmet(look: SecondLook, needs: Sequence[str]) -> str:
    return look.unmet(needs)


def _exists(bucket: Bucket, key: str) -> bool:
    try:
        bucket.head(key)
    except ObjectMissingError:
        return False
    return True
