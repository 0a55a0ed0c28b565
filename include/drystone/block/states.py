"""The state of one block, from its folder, the times of its stream and a moment: one pure function.

Source: the design, "Blocks: the rules". The table of transitions is in docs/reference/states.md, and a test walks it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from drystone import ulids
from drystone.block.folder import Folder
from drystone.block.meta import META_FILE


@dataclass(frozen=True, slots=True)
class Times:
    """The times that rule a stream's life, in ms. The design, "Visibility: what it rests on", says how they relate."""

    sync_delay: int = 15 * 60_000
    delete_delay: int = 15 * 60_000
    upload_timeout: int = 10 * 60_000
    max_lag: int = 0
    read_timeout: int = 10 * 60_000
    clock_skew: int = 60_000
    group_timeout: int = 24 * 3_600_000
    plan_ttl: int = 3_600_000


class State(StrEnum):
    """Where a block is in its life."""

    FRESH = "Fresh"
    """Younger than syncDelay: perhaps still in upload, and not read."""
    HEALTHY = "Healthy"
    """Whole, and older than syncDelay."""
    HEALTHY_OVERLAPPED = "HealthyOverlapped"
    """Whole, and fully covered by a ready group: to be marked."""
    PARTIAL = "Partial"
    """Files without meta.json."""
    MALFORMED = "Malformed"
    """meta.json cannot be used, or files that it lists are missing or of other size."""
    MARKED = "Marked"
    """Scheduled for deletion; deleteDelay is running."""
    DELETING = "Deleting"
    """Marked, and meta.json is gone: a deletion that began."""
    DELETABLE = "Deletable"
    """Marked, and deleteDelay is over."""


def state(folder: Folder, now: int, times: Times, *, overlapped: bool = False) -> State:
    """Return the state of `folder`'s block at `now` (ms). `overlapped`: a ready group fully covers its group."""
    if folder.has_mark:
        return _marked_state(folder, now, times)
    if is_fresh(folder, now, times):
        return State.FRESH
    if not folder.has_meta:
        return State.PARTIAL
    if not folder.loadable:
        return State.MALFORMED
    return State.HEALTHY_OVERLAPPED if overlapped else State.HEALTHY


def _marked_state(folder: Folder, now: int, times: Times) -> State:
    if not folder.has_meta:
        return State.DELETING
    if folder.mark is None:
        # It cannot be read, so nobody knows since when: marked, and never deletable.
        return State.MARKED
    over = folder.mark.deletion_time * 1000 + times.delete_delay <= now
    return State.DELETABLE if over else State.MARKED


def is_fresh(folder: Folder, now: int, times: Times) -> bool:
    """Tell whether the block is too young to be read: its ULID, or its last activity up to meta.json.

    Both count, because a writer that paused before its last PUT would else make a block that is ready at once. A ULID
    from the future is Fresh. `ignore_delay` in a readable meta.json lifts the delay.
    """
    if folder.loadable and folder.meta is not None:
        extension = folder.meta.drystone
        if extension is not None and extension.ignore_delay:
            return False
    meta = folder.files.get(META_FILE)
    touched = meta.modified if meta is not None else folder.last_activity
    youngest = max(ulids.time_of(folder.ulid), touched)
    return youngest + times.sync_delay > now


def is_from_future(folder: Folder, now: int, times: Times) -> bool:
    """Tell whether the ULID's time lies further ahead than the tolerated clock skew: somebody's clock is wrong."""
    return ulids.time_of(folder.ulid) > now + times.clock_skew
