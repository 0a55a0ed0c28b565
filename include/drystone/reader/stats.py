"""Figures of a stream at one moment, for reports."""

from __future__ import annotations

from dataclasses import dataclass

from drystone.block.marks import MARKS
from drystone.bucket.protocol import Bucket
from drystone.reader.view import View, look


@dataclass(frozen=True, slots=True)
class StageStats:
    """Counts of block folders, of the visible ones' files, bytes and rows as their metas say."""

    blocks_visible: int
    blocks_total: int
    blocks_marked: int
    files: int
    bytes: int
    rows: int


def observe_stats(bucket: Bucket | str, stream: str, now: int | None = None) -> StageStats:
    """Observe a stream and count."""
    return count(look(bucket, stream, now))


def count(view: View) -> StageStats:
    """Count what a view shows."""
    members = [block for visible in view.timeline.visible.values() for block in visible.group.members]
    folders = view.snapshot.folders
    return StageStats(
        blocks_visible=len(members),
        blocks_total=len(folders),
        blocks_marked=sum(folder.has_mark for folder in folders.values()),
        files=sum(len(folders[block.ulid].files.keys() - MARKS) for block in members),
        bytes=sum(block.size for block in members),
        rows=sum(block.rows for block in members),
    )
