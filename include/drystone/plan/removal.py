"""Planning removals: what to mark, what to unmark, what to delete. Source: the design, rules 6 to 8 and "Guards"."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

from drystone import ulids
from drystone.block.folder import Folder
from drystone.block.marks import EXPIRED
from drystone.block.states import State, Times, state
from drystone.plan.model import Delete, Mark, Plan, Skip, Unmark
from drystone.plan.support import Support
from drystone.timeline.blocks import block_of
from drystone.timeline.groups import Group
from drystone.timeline.pending import Expiry, expiry_of
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve


@dataclass(frozen=True, slots=True)
class Justification:
    """Why a block may go, and which blocks must stay whole and unmarked for that to be true."""

    reason: str
    needs: tuple[str, ...] = ()


def justify(snapshot: Snapshot, timeline: Timeline, times: Times) -> dict[str, Justification]:
    """Return, by ULID, every block that may be removed, and why.

    That is: covered by a ready and unmarked group, out by an edit or a replacement, a twin, or left by a compaction
    that died `group_timeout` ago. What holds the last rows of a source that is not retired or expired is never in it,
    nor what alone tells that a source is replaced which is still there.
    """
    support = Support(snapshot, timeline)
    found: dict[str, Justification] = {}
    for name, why in chain(
        _covered(timeline, support), _out(timeline, support), _incomplete(snapshot, timeline, support, times)
    ):
        found.update(dict.fromkeys((block.ulid for block in timeline.groups[name].blocks), why))
    for ulid, name in timeline.twins.items():
        needs = support.group(name)
        if needs is not None and name in timeline.visible:
            found[ulid] = Justification(f"twin in group {name}", needs)
    return found


def _covered(timeline: Timeline, support: Support) -> Iterator[tuple[str, Justification]]:
    gone = timeline.gone
    for name, by in timeline.covered.items():
        group = timeline.groups[name]
        needs = support.group(by)
        if needs is None or support.keeps_replaced_away(group):
            continue
        replaced = () if gone.sources.isdisjoint(group.sources) else gone.sources & group.sources
        more = support.sources(group, replaced) if replaced else ()
        if more is not None:
            yield name, Justification(f"covered by group {by}", tuple(dict.fromkeys((*needs, *more))))


def _out(timeline: Timeline, support: Support) -> Iterator[tuple[str, Justification]]:
    unsettled = frozenset[str]().union(*map(_named_by, timeline.incomplete.values()))
    for name, reason in timeline.out.items():
        group = timeline.groups[name]
        # Nobody could tell any more that these rows are expired, and not lost with what is missing of that group.
        if reason == EXPIRED and not unsettled.isdisjoint(group.sources):
            continue
        needs = () if reason == EXPIRED else support.sources(group, group.sources)
        if needs is not None and not support.keeps_replaced_away(group):
            yield name, Justification(reason, needs)


def _incomplete(
    snapshot: Snapshot, timeline: Timeline, support: Support, times: Times
) -> Iterator[tuple[str, Justification]]:
    expiry = expiry_of(snapshot.edits)
    named = sources_in_doubt(timeline, expiry)
    for name, group in timeline.incomplete.items():
        if group.touched + times.group_timeout > timeline.at and not group.was_expired:
            continue
        over = expiry.takes_all_of(group)
        if over and not named.isdisjoint(group.sources):
            continue  # As in `_out`: it alone tells that what the other misses is expired.
        needs = () if over else support.sources(group, group.sources)
        if needs is not None:
            why = EXPIRED if group.was_expired else f"incomplete group {name}, older than group_timeout"
            yield name, Justification(why, needs)


def sources_in_doubt(timeline: Timeline, expiry: Expiry) -> frozenset[str]:
    """Return what groups name that lack members, and have not expired as a whole: what tells of it must stay."""
    lacking = (group for group in timeline.incomplete.values() if not expiry.takes_all_of(group))
    return frozenset[str]().union(*map(_named_by, lacking))


def _named_by(group: Group) -> frozenset[str]:
    """Return the group's sources, and what they replace: half a replacement is no damage while its root is known."""
    return group.sources.union(pair.root for pair in group.retires)


def plan_marks(snapshot: Snapshot, timeline: Timeline, times: Times, plan_id: str) -> Plan:
    """Plan which blocks to mark, and which marks to take away because nothing justifies them (any more)."""
    justified = justify(snapshot, timeline, times)
    marks: list[Mark] = []
    unmarks: list[Unmark] = []
    skipped: list[Skip] = []
    for ulid, folder in snapshot.folders.items():
        why = justified.get(ulid)
        wanted = not folder.has_mark if why is not None else folder.mark is not None and folder.has_meta
        if not wanted:
            continue
        held = held_by(snapshot, ulid, timeline.at)
        if held:
            skipped.append(Skip(name=ulid, reason=held))
        elif why is not None:
            marks.append(Mark(ulid=ulid, reason=why.reason, needs=why.needs))
        elif folder.mark is not None:
            reason = f"nothing supersedes it (it was marked: {folder.mark.details or 'no reason given'})"
            unmarks.append(Unmark(ulid=ulid, reason=reason))
    return _plan("mark", snapshot, timeline, times, plan_id, marks=marks, unmarks=unmarks, skipped=skipped)


def plan_sweep(snapshot: Snapshot, timeline: Timeline, times: Times, plan_id: str) -> Plan:
    """Plan which blocks to delete: marked and justified for deleteDelay, half deleted, or Partial and long idle.

    A mark alone does not tell for how long nobody has read the block: another tool may have set it long before.
    """
    justified = justify(snapshot, timeline, times)
    before = justified_before(snapshot, times, timeline.at - times.delete_delay)
    deletes: list[Delete] = []
    skipped: list[Skip] = []
    pinned = any(pin.expires > timeline.at for pin in snapshot.pins)
    for ulid, folder in snapshot.folders.items():
        delete = _delete(folder, justified, before, timeline.at, times)
        if delete is None:
            continue
        held = held_by(snapshot, ulid, timeline.at)
        if isinstance(delete, str):
            skipped.append(Skip(name=ulid, reason=delete))
        elif held or (pinned and delete.kind != "unfinished"):
            skipped.append(Skip(name=ulid, reason=held or "a long read has pinned the stream"))
        else:
            deletes.append(delete)
    return _plan("sweep", snapshot, timeline, times, plan_id, deletes=deletes, skipped=skipped)


def justified_before(snapshot: Snapshot, times: Times, at: int) -> frozenset[str]:
    """Return the ULIDs of what could be removed at an earlier moment already, as far as what is still there tells."""
    there = {ulid: folder for ulid, folder in snapshot.folders.items() if _was_there(folder, at)}
    edits = tuple(edit for edit in snapshot.edits if edit.time <= at)
    earlier = replace(snapshot, folders=there, edits=edits)
    return frozenset(justify(earlier, resolve(earlier, times, at), times))


def _was_there(folder: Folder, at: int) -> bool:
    block = block_of(folder)
    return block is not None and block.touched <= at


def _delete(
    folder: Folder, justified: Mapping[str, Justification], before: frozenset[str], now: int, times: Times
) -> Delete | str | None:
    """Return the deletion that is due, or why a block is left that looks due; None for one that does not."""
    match state(folder, now, times):
        case State.DELETABLE:
            why = justified.get(folder.ulid)
            if why is None:
                return "marked for deleteDelay, but nothing supersedes it: the next mark run takes the mark away"
            if folder.ulid not in before:
                return "marked for deleteDelay, but superseded for less: somebody may still be reading it"
            return Delete(ulid=folder.ulid, kind="marked", bytes=folder.size, reason=why.reason, needs=why.needs)
        case State.DELETING if _began(folder, now, times):
            reason = "its deletion had begun"
            return Delete(ulid=folder.ulid, kind="unfinished", bytes=folder.size, reason=reason)
        case State.PARTIAL if is_idle(folder, now, times):
            reason = "an upload that never finished"
            return Delete(ulid=folder.ulid, kind="partial", bytes=folder.size, reason=reason)
        case _:
            return None


def _began(folder: Folder, now: int, times: Times) -> bool:
    """Whether a remover took meta.json away, which it does deleteDelay after the mark at the soonest.

    A mark that is younger, or that nobody can read, may lie in the folder of an upload that still runs.
    """
    if folder.mark is not None and folder.mark.deletion_time * 1000 + times.delete_delay <= now:
        return True
    return is_idle(folder, now, times)


def is_idle(folder: Folder, now: int, times: Times) -> bool:
    """Tell whether neither the ULID nor any object is younger than syncDelay + deleteDelay: no writer is at it."""
    youngest = max(ulids.time_of(folder.ulid), folder.last_activity)
    return youngest + times.sync_delay + times.delete_delay <= now


def held_by(snapshot: Snapshot, ulid: str, now: int) -> str:
    """Return who holds the block, and why; an empty text if nobody does."""
    for hold in snapshot.holds:
        if hold.expires > now and (not hold.blocks or ulid in hold.blocks):
            return f"held by {hold.owner}: {hold.reason}"
    return ""


def _plan(kind: str, snapshot: Snapshot, timeline: Timeline, times: Times, plan_id: str, **actions: object) -> Plan:
    return Plan.model_validate(
        {
            "id": plan_id,
            "stream": snapshot.stream,
            "kind": kind,
            "created": timeline.at,
            "expires": timeline.at + times.plan_ttl,
            **actions,
        }
    )
