"""Erasures on their way to the end: blocks looked through, receipts written, and where else such rows might be.

Source: the design, "Blocks: lifecycle verbs". Receipts are kept with the stream, so what was looked through once is not
read again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from drystone import ulids
from drystone.block import keys, receipt
from drystone.block.edits import Erase
from drystone.block.meta import Meta
from drystone.block.receipt import Receipt
from drystone.bucket.protocol import Bucket
from drystone.engine.count import BlockHits
from drystone.engine.elsewhere import elsewhere
from drystone.errors import DrystoneError, ObjectMissingError, UsageError
from drystone.plan.compaction import CompactionPolicy
from drystone.plan.edits import Seen
from drystone.plan.erasures import check_erasure, plan_rewrite, unapplied
from drystone.plan.model import Plan
from drystone.timeline.pending import PendingEdit
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Look:
    """One block to be looked through for rows that these edits take."""

    meta: Meta
    edits: tuple[PendingEdit, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """What was found in a block: the rows by edit, or the error that kept it from being read."""

    ulid: str
    rows: Mapping[str, int]
    error: str = ""


@dataclass(frozen=True, slots=True)
class LookInto:
    """Looks through one block; can be sent to other processes."""

    hits: BlockHits

    def __call__(self, look: Look) -> Found:
        """Count; never raises for what is wrong with one block, so that the others go on."""
        try:
            return Found(look.meta.ulid, self.hits.count(look.meta, look.edits))
        except ObjectMissingError:
            return Found(look.meta.ulid, {})  # Deleted since: then another one holds its rows.
        except DrystoneError as error:
            return Found(look.meta.ulid, {}, f"block {look.meta.ulid}: {error}")


@dataclass(frozen=True, slots=True)
class Search:
    """What was found in all blocks: `taken` rows by block, `clear` blocks by edit, and what could not be read."""

    taken: Mapping[str, int] = field(default_factory=dict)
    clear: Mapping[str, frozenset[str]] = field(default_factory=dict)
    errors: tuple[str, ...] = ()


def to_look_through(bucket: Bucket, snapshot: Snapshot, timeline: Timeline) -> list[Look]:
    """Return the blocks that are read and may hold erased rows, less what receipts know as clear."""
    known = {edit.id: known_clear(bucket, snapshot.stream, edit.id) for edit in erasures(snapshot)}
    found: list[Look] = []
    for ulid, pending in unapplied(snapshot, timeline):
        left = tuple(each for each in pending if ulid not in known.get(each.edit.id, ()))
        meta = snapshot.folders[ulid].meta
        if left and meta is not None:
            found.append(Look(meta, left))
    return found


def search_of(looks: Iterable[Look], found: Iterable[Found]) -> Search:
    """Return what many looks found together."""
    wanted = {look.meta.ulid: look.edits for look in looks}
    taken: dict[str, int] = {}
    clear: dict[str, set[str]] = {}
    errors: list[str] = []
    for each in found:
        if each.error:
            errors.append(each.error)
        elif each.rows:
            taken[each.ulid] = sum(each.rows.values())
            for pending in wanted[each.ulid]:
                if not each.rows[pending.edit.id]:
                    clear.setdefault(pending.edit.id, set()).add(each.ulid)
    return Search(taken, {edit: frozenset(blocks) for edit, blocks in clear.items()}, tuple(errors))


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Plans the rewrites that a stream's erasures and retirements still need. `look_into`: how many blocks are read."""

    bucket: Bucket
    policy: CompactionPolicy
    run: str
    look_into: Callable[[Sequence[Look]], Iterable[Found]]

    def plan(self, seen: Seen, batches: int, *, dry_run: bool) -> tuple[Plan, Search]:
        """Look through what nobody has looked through yet, and plan; keep what was found, but not in a dry run."""
        looks = to_look_through(self.bucket, seen.snapshot, seen.timeline)
        search = search_of(looks, self.look_into(looks) if looks else ())
        for edit in () if dry_run else erasures(seen.snapshot):
            if clear := search.clear.get(edit.id):
                keep_receipt(self.bucket, receipt_of(self.bucket, seen, edit, self.run, clear))
        return plan_rewrite(seen, self.policy, batches, search.taken), search


def erasures(snapshot: Snapshot, only: str | None = None) -> list[Erase]:
    """Return the erase edits by age; raise UsageError if the only one that is asked for is not there."""
    found = [each for each in snapshot.edits if isinstance(each, Erase) and only in {None, each.id}]
    if only is not None and not found:
        msg = f"stream {snapshot.stream} has no erase edit {only}."
        raise UsageError(msg, f"`drystone erase status {snapshot.stream}` lists them.")
    return sorted(found, key=lambda each: (each.time, each.id))


def receipt_of(bucket: Bucket, seen: Seen, edit: Erase, run: str, clear: frozenset[str] = frozenset()) -> Receipt:
    """Return the state of an erasure as it is seen. `clear`: looked through since the last receipt."""
    snapshot = seen.snapshot
    known = known_clear(bucket, snapshot.stream, edit.id) | clear
    remains = check_erasure(snapshot, seen.timeline, seen.times, edit, known)
    places = elsewhere(bucket, snapshot, seen.times, edit)
    is_open = bool(remains.left) or any(place.state == "open" for place in places)
    return Receipt(
        id=ulids.new(snapshot.taken_at),
        stream=snapshot.stream,
        edit=edit.id,
        time=snapshot.taken_at,
        run=run,
        state="open" if is_open else "complete",
        applied=remains.applied,
        later=remains.later,
        clear=remains.clear,
        left=remains.left,
        uploading=remains.uploading,
        elsewhere=places,
    )


def keep_receipt(bucket: Bucket, made: Receipt) -> str:
    """Write the receipt, unless the last one says the same; return the key of the one that holds."""
    prefix = keys.receipts(made.stream, made.edit)
    last = last_receipt(bucket, made.stream, made.edit)
    if last is not None and last.says_the_same(made):
        return f"{prefix}{last.id}.json"
    key = f"{prefix}{made.id}.json"
    bucket.create(key, made.to_json())
    return key


def last_receipt(bucket: Bucket, stream: str, edit: str, *, complete: bool = False) -> Receipt | None:
    """Return the last receipt of an erasure, or the last one that found it complete; None if there is none."""
    for key in sorted((item.key for item in bucket.list(keys.receipts(stream, edit))), reverse=True):
        found = receipt.parse(bucket.get(key), key)
        if found.state == "complete" or not complete:
            return found
    return None


def known_clear(bucket: Bucket, stream: str, edit: str) -> frozenset[str]:
    """Return the blocks that some receipt of an erasure knows as looked through, without such a row."""
    # Any of them: two runs that look at once do not know of each other, and blocks do not change.
    found = (item.key for item in bucket.list(keys.receipts(stream, edit)))
    return frozenset(ulid for key in found for ulid in receipt.parse(bucket.get(key), key).clear)
