"""Planning holds, their release, and the unmarking of a block that a person wants to keep. Pure.

Source: the design, "Blocks: guards", "Blocks: lifecycle verbs".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from drystone.block import keys
from drystone.block.folder import Folder
from drystone.block.guards import Hold
from drystone.errors import UsageError
from drystone.plan.edits import Asked, Seen
from drystone.plan.model import PlaceHold, Plan, ReleaseHold, Skip, Unmark
from drystone.plan.removal import justify


def plan_hold(
    seen: Seen, holds: Mapping[str, Hold], name: str, blocks: Iterable[str], asked: Asked, length: int
) -> Plan:
    """Plan to hold these blocks, or the whole stream where none are named, for `length` ms.

    `holds`: what is held already, by name. The same hold again is no action. Raises UsageError for a name that is taken
    by another hold, and for a block that the stream does not have.
    """
    keys.hold(seen.snapshot.stream, name)
    named = tuple(sorted(blocks))
    for ulid in named:
        _folder(seen, ulid)
    now = seen.timeline.at
    wanted = Hold(owner=asked.author, reason=asked.reason, created=now, expires=now + length, blocks=named)
    there = holds.get(name)
    if there is None or there.expires <= now:
        return _plan(seen, "hold", holds=(PlaceHold(name=name, hold=wanted),))
    same = (there.owner, there.reason, there.blocks) == (wanted.owner, wanted.reason, wanted.blocks)
    if not same or there.expires - there.created != length:
        msg = f"stream {seen.snapshot.stream} has another hold {name}, by {there.owner}: {there.reason}."
        raise UsageError(msg, "Take another name, or release that one first.")
    return _plan(seen, "hold", skipped=(Skip(name=name, reason="it is there already"),))


def plan_release(seen: Seen, holds: Mapping[str, Hold], name: str, asked: Asked) -> Plan:
    """Plan to take a hold away; one that is not there is no action."""
    keys.hold(seen.snapshot.stream, name)
    if name not in holds:
        return _plan(seen, "release", skipped=(Skip(name=name, reason="there is no such hold"),))
    return _plan(seen, "release", releases=(ReleaseHold(name=name, reason=asked.reason),))


def plan_unmark(seen: Seen, holds: Mapping[str, Hold], ulid: str, asked: Asked, length: int) -> Plan:
    """Plan to take a block's deletion mark away, and to hold the block for `length` ms where it would come back.

    It would where the block is superseded or gone by an edit: then every mark run justifies it anew. Raises UsageError
    for a block that the stream does not have, or whose deletion has begun.
    """
    folder = _folder(seen, ulid)
    if not folder.has_mark:
        return _plan(seen, "unmark", skipped=(Skip(name=ulid, reason="it is not marked"),))
    if not folder.has_meta:
        msg = f"block {ulid} of stream {seen.snapshot.stream} is being deleted: its meta.json is gone."
        raise UsageError(msg, "Restore it from an older version of the objects, if the store keeps those.")
    action = Unmark(ulid=ulid, reason=asked.reason)
    why = justify(seen.snapshot, seen.timeline, seen.times).get(ulid)
    if why is None:
        return _plan(seen, "unmark", unmarks=(action,))
    reason = f"{asked.reason} (it would be marked again: {why.reason})"
    guard = plan_hold(seen, holds, f"unmark-{ulid}", [ulid], Asked(reason, asked.author), length)
    return guard.model_copy(update={"kind": "unmark", "unmarks": (action,)})


def _folder(seen: Seen, ulid: str) -> Folder:
    folder = seen.snapshot.folders.get(ulid)
    if folder is None:
        msg = f"stream {seen.snapshot.stream} has no block {ulid}."
        raise UsageError(msg, f"`drystone ls {seen.snapshot.stream}` lists them.")
    return folder


def _plan(seen: Seen, kind: str, **actions: object) -> Plan:
    return Plan.model_validate(
        {
            "id": seen.plan_id,
            "stream": seen.snapshot.stream,
            "kind": kind,
            "created": seen.timeline.at,
            "expires": seen.timeline.at + seen.times.plan_ttl,
            **actions,
        }
    )
