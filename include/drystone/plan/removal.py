"""Planning removals: what to mark, what to unmark, what to delete. Source: the design, rules 6 to 8 and "Guards"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from drystone import ulids
from drystone.block.folder import Folder
from drystone.block.states import State, Times, state
from drystone.plan.model import Delete, Mark, Plan, Skip, Unmark
from drystone.timeline.groups import Group
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Justification:
    """Why a block may go, and which blocks must stay whole and unmarked for that to be true."""

    reason: str
    needs: tuple[str, ...] = ()


def justify(snapshot: Snapshot, timeline: Timeline, times: Times) -> dict[str, Justification]:
    """Return, by ULID, every block that may be removed, and why.

    That is: covered by a ready and unmarked group, out by an edit or a replacement, a twin, or left by a compaction
    that died `group_timeout` ago. What holds the last rows of a source that is still read is never in it.
    """
    found: dict[str, Justification] = {}
    for name, by in timeline.covered.items():
        needs = _unmarked_members(timeline.groups[by], snapshot)
        if needs:
            why = Justification(f"covered by group {by}", needs)
            found.update({block.ulid: why for block in timeline.groups[name].blocks})
    for name, reason in timeline.out.items():
        if not _still_needed(timeline.groups[name], timeline):
            found.update({block.ulid: Justification(reason) for block in timeline.groups[name].blocks})
    for ulid, name in timeline.twins.items():
        needs = _unmarked_members(timeline.groups[name], snapshot)
        if needs and ulid not in found:
            found[ulid] = Justification(f"twin in group {name}", needs)
    damaged = {damage.name for damage in timeline.damage}
    for name, group in timeline.incomplete.items():
        if name not in damaged and group.touched + times.group_timeout <= timeline.at:
            why = Justification(f"incomplete group {name}, older than group_timeout", _holders(group, timeline))
            found.update({block.ulid: why for block in group.blocks})
    return found


def plan_marks(snapshot: Snapshot, timeline: Timeline, times: Times, plan_id: str) -> Plan:
    """Plan which blocks to mark, and which marks to take away because nothing justifies them (any more)."""
    justified = justify(snapshot, timeline, times)
    marks: list[Mark] = []
    unmarks: list[Unmark] = []
    skipped: list[Skip] = []
    for ulid, folder in snapshot.folders.items():
        why = justified.get(ulid)
        held = _held_by(snapshot, ulid, timeline.at)
        if why is not None and not folder.has_mark and held:
            skipped.append(Skip(name=ulid, reason=held))
        elif why is not None and not folder.has_mark:
            marks.append(Mark(ulid=ulid, reason=why.reason, needs=why.needs))
        elif why is None and folder.mark is not None and folder.has_meta:
            reason = f"nothing supersedes it (it was marked: {folder.mark.details or 'no reason given'})"
            unmarks.append(Unmark(ulid=ulid, reason=reason))
    return _plan("mark", snapshot, timeline, times, plan_id, marks=marks, unmarks=unmarks, skipped=skipped)


def plan_sweep(snapshot: Snapshot, timeline: Timeline, times: Times, plan_id: str) -> Plan:
    """Plan which blocks to delete: marked and justified for deleteDelay, half deleted, or Partial and long idle."""
    justified = justify(snapshot, timeline, times)
    deletes: list[Delete] = []
    skipped: list[Skip] = []
    pinned = any(pin.expires > timeline.at for pin in snapshot.pins)
    for ulid, folder in snapshot.folders.items():
        delete = _delete(folder, justified, timeline.at, times)
        if delete is None:
            continue
        held = _held_by(snapshot, ulid, timeline.at)
        if held or (pinned and delete.kind != "unfinished"):
            skipped.append(Skip(name=ulid, reason=held or "a long read has pinned the stream"))
        else:
            deletes.append(delete)
    return _plan("sweep", snapshot, timeline, times, plan_id, deletes=deletes, skipped=skipped)


def _delete(folder: Folder, justified: Mapping[str, Justification], now: int, times: Times) -> Delete | None:
    match state(folder, now, times):
        case State.DELETABLE:
            why = justified.get(folder.ulid)
            if why is None:
                return None
            return Delete(ulid=folder.ulid, kind="marked", bytes=folder.size, reason=why.reason, needs=why.needs)
        case State.DELETING:
            reason = "its deletion had begun"
            return Delete(ulid=folder.ulid, kind="unfinished", bytes=folder.size, reason=reason)
        case State.PARTIAL if _idle(folder, now, times):
            reason = "an upload that never finished"
            return Delete(ulid=folder.ulid, kind="partial", bytes=folder.size, reason=reason)
        case _:
            return None


def _idle(folder: Folder, now: int, times: Times) -> bool:
    """Whether neither the ULID nor any object is younger than syncDelay + deleteDelay: no writer is still at it."""
    youngest = max(ulids.time_of(folder.ulid), folder.last_activity)
    return youngest + times.sync_delay + times.delete_delay <= now


def _unmarked_members(group: Group, snapshot: Snapshot) -> tuple[str, ...]:
    names = tuple(block.ulid for block in group.members)
    return () if any(snapshot.folders[name].has_mark for name in names) else names


def _still_needed(group: Group, timeline: Timeline) -> bool:
    """Whether a replaced source would come back if this group, which says that it is replaced, went first."""
    return any(
        pair.root in other.sources and pair not in other.retires
        for pair in group.retires
        for other in timeline.groups.values()
        if other.id != group.id
    )


def _holders(group: Group, timeline: Timeline) -> tuple[str, ...]:
    """Return the members of visible groups that hold the group's sources."""
    return tuple(
        sorted(
            block.ulid
            for visible in timeline.visible.values()
            if visible.group.sources & group.sources
            for block in visible.group.members
        )
    )


def _held_by(snapshot: Snapshot, ulid: str, now: int) -> str:
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
