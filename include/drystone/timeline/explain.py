"""What the timeline makes of each block, and why, in words for a person. Whatever shows a stream shows these."""

from __future__ import annotations

from collections.abc import Mapping

from drystone import ulids
from drystone.block.folder import Folder
from drystone.block.marks import EXPIRED
from drystone.block.meta import META_FILE
from drystone.block.states import State, Times
from drystone.timeline.groups import Group
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline

_OUT = {
    "retired": "all its sources were retired by an edit",
    "replaced": "all its sources were replaced",
    EXPIRED: "all its rows are expired by an edit",
}


def explain(snapshot: Snapshot, timeline: Timeline, states: Mapping[str, State], times: Times) -> dict[str, str]:
    """Return, by ULID, why each block folder of the snapshot is in its state, and whether it is read."""
    roles = _roles(timeline)
    return {
        ulid: _why(folder, states[ulid], roles.get(ulid, ""), timeline.at, times)
        for ulid, folder in snapshot.folders.items()
    }


def _why(folder: Folder, state: State, role: str, now: int, times: Times) -> str:
    match state:
        case State.FRESH if folder.meta_error:
            return folder.meta_error
        case State.FRESH if not folder.has_meta:
            return "its upload runs, or has just died"
        case State.FRESH:
            youngest = max(ulids.time_of(folder.ulid), folder.files[META_FILE].modified)
            return f"younger than sync_delay, ready in {_seconds(youngest + times.sync_delay - now)}"
        case State.PARTIAL:
            return "files without a meta.json: an upload that died"
        case State.MALFORMED:
            return folder.meta_error or "; ".join(folder.missing_files())
        case State.DELETING:
            return "marked, and its meta.json is gone: the next sweep finishes its deletion"
        case State.MARKED | State.DELETABLE:
            known = role if folder.mark is None or role != folder.mark.details else ""
            return "; ".join(part for part in (_mark(folder, now, times), folder.meta_error, known) if part)
        case _:
            return role or "another tool's block, or one of a group whose blocks disagree: it is not read"


def _mark(folder: Folder, now: int, times: Times) -> str:
    if folder.mark is None:
        return folder.mark_error or "its mark cannot be read"
    left = folder.mark.deletion_time * 1000 + times.delete_delay - now
    when = f"deletable in {_seconds(left)}" if left > 0 else "deletable"
    return f"{when}, marked for: {folder.mark.details or 'no reason given'}"


def _roles(timeline: Timeline) -> dict[str, str]:
    found: dict[str, str] = {}
    for group in timeline.groups.values():
        role = _role(group, timeline)
        found.update({block.ulid: role for block in group.members})
        found.update({block.ulid: f"a spare block of group {group.id}" for block in group.others})
    return found


def _role(group: Group, timeline: Timeline) -> str:
    if group.id in timeline.covered:
        return f"covered by group {timeline.covered[group.id]}"
    if group.id in timeline.out:
        return _OUT[timeline.out[group.id]]
    if group.id in timeline.incomplete:
        return f"not read: its group {group.id} has {len(group.members)} of {group.pattern.group_size} members"
    if group.id in timeline.pending:
        return f"not read yet: its group {group.id} is not ready"
    visible = timeline.visible[group.id]
    if visible.excluded:
        return f"read, less {len(visible.excluded)} of {len(group.sources)} sources that are read elsewhere or nowhere"
    return "read"


def _seconds(ms: int) -> str:
    return f"{max(ms, 0) / 1000:.0f} s"
