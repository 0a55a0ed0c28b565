"""Counting what a look at a stream shows, for the fleet's overview (`drystone.verbs.overview`): one pure function."""

from __future__ import annotations

from drystone import ulids
from drystone.block.states import State
from drystone.reader.stats import count
from drystone.reader.view import View
from drystone.timeline.timeline import states
from drystone.verbs.overview import Numbers

RECLAIMABLE = frozenset({State.HEALTHY_OVERLAPPED, State.PARTIAL, State.MARKED, State.DELETING, State.DELETABLE})
"""States of blocks that no reader needs: their bytes are what deleting them will free."""
_CHUNKS = "chunks/"


def numbers_of(view: View, target_block_bytes: int) -> Numbers:
    """Count what a view shows; `target_block_bytes`: the size that compaction aims at. No I/O."""
    snapshot, timeline, stats = view.snapshot, view.timeline, count(view)
    found = states(snapshot, timeline, view.record.rules)
    small, counted = 0, dict.fromkeys(State, 0)
    visible = tuple(timeline.visible.groups)
    for block in (block for group in visible for block in group.members):
        files = snapshot.folders[block.ulid].files.items()
        small += sum(2 * facts.size < target_block_bytes for name, facts in files if name.startswith(_CHUNKS))
    for state in found.values():
        counted[state] += 1
    return Numbers(
        states=counted,
        blocks_visible=stats.blocks_visible,
        blocks_total=stats.blocks_total,
        blocks_marked=stats.blocks_marked,
        rows=stats.rows,
        bytes=stats.bytes,
        files=stats.files,
        small_files=small,
        bytes_to_reclaim=sum(snapshot.folders[name].size for name, state in found.items() if state in RECLAIMABLE),
        newest_event=max((group.max_time for group in visible if group.pattern.rows), default=None),
        newest_ingest=max((ulids.time_of(max(group.sources)) for group in visible if group.sources), default=None),
        problems=len(timeline.problems),
        damage=len(timeline.damage),
    )
