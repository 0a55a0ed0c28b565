"""The seam between how a stream's blocks are known and everything that is done with them."""

from __future__ import annotations

from typing import Protocol

from drystone.timeline.snapshot import Snapshot


class Tracker(Protocol):
    """Knows which blocks a stream has. Source: the design, "Tracking"."""

    def observe(self, now: int) -> Snapshot:
        """Return what the stream holds, as seen from `now` (ms) on.

        One block that cannot be read is reported in its folder and harms no other. An edit that cannot be read raises
        UnreadableBlockError, because it may take rows away. Raises BucketError if the store fails.
        """
        ...
