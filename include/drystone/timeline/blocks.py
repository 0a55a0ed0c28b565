"""A block as the timeline sees it: the few facts that visibility depends on."""

from __future__ import annotations

from dataclasses import dataclass

from drystone import ulids
from drystone.block.chunks import Granularity
from drystone.block.folder import Folder
from drystone.block.marks import EXPIRED
from drystone.block.meta import META_FILE, Replacement

NONE: frozenset[str] = frozenset()
NO_REPLACEMENTS: frozenset[Replacement] = frozenset()


@dataclass(frozen=True, slots=True)
class Block:
    """One block whose meta.json can be read. Times are ms since the epoch; rows lie in [min_time, max_time).

    `touched` is the later of the ULID's time and meta.json's last-modified: syncDelay counts from there. `expired`: its
    mark says that every row of its group was expired, which the others may no longer be there to tell.
    """

    ulid: str
    min_time: int
    max_time: int
    sources: frozenset[str]
    touched: int
    group: str
    group_size: int = 1
    group_index: int = 0
    generation: int = 0
    resolution: int = 0
    rewrite: int = 0
    edits: frozenset[str] = NONE
    retires: frozenset[Replacement] = NO_REPLACEMENTS
    ignore_delay: bool = False
    loadable: bool = True
    granularity: Granularity = "day"
    level: int = 1
    rows: int = 0
    size: int = 0
    expired: bool = False

    def ready(self, now: int, sync_delay: int) -> bool:
        """Tell whether readers may rely on the block at `now`."""
        return self.loadable and (self.ignore_delay or self.touched + sync_delay <= now)


def block_of(folder: Folder) -> Block | None:
    """Return the block in a folder, or None where there is no readable meta.json of Drystone's."""
    meta = folder.meta
    extension = meta.drystone if meta is not None else None
    if meta is None or extension is None:
        return None
    group = extension.group
    return Block(
        ulid=folder.ulid,
        min_time=meta.min_time,
        max_time=meta.max_time,
        sources=folder.sources,
        touched=max(ulids.time_of(folder.ulid), folder.files[META_FILE].modified),
        group=group.id if group else folder.ulid,
        group_size=group.size if group else 1,
        group_index=group.index if group else 0,
        generation=extension.generation,
        resolution=meta.thanos.downsample.resolution,
        rewrite=extension.rewrite,
        edits=frozenset(extension.edits),
        retires=frozenset(extension.retires),
        ignore_delay=extension.ignore_delay,
        loadable=not folder.missing_files(),
        granularity=extension.time_chunk.granularity,
        level=meta.compaction.level,
        rows=meta.stats.num_samples,
        size=folder.size,
        expired=folder.mark is not None and folder.mark.details == EXPIRED,
    )
