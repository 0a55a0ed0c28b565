"""Block folders as a listing would show them, made from the few facts that a timeline needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from drystone.block.chunks import Chunk, covering_chunk
from drystone.block.edits import Edit
from drystone.block.folder import FileFacts, Folder
from drystone.block.guards import Hold, Pin
from drystone.block.journal import Attempt
from drystone.block.marks import DELETION_MARK, NO_COMPACT_MARK, DeletionMark
from drystone.block.meta import (
    FORMAT_VERSION,
    META_FILE,
    Compaction,
    Downsample,
    Extension,
    File,
    Group,
    Meta,
    Stats,
    Thanos,
    TimeChunk,
)
from drystone.timeline.blocks import Block
from drystone.timeline.snapshot import Snapshot

STREAM = "stream"
CHUNK_FILE = "chunks/000001.parquet"
_META_BYTES = 1000


def folder_of(block: Block) -> Folder:
    """Return the folder of a block: `drystone.timeline.blocks.block_of` makes the same block of it again.

    Its size is the block's, at least that of a meta.json; a block that is not loadable lacks its chunk.
    """
    size = max(block.size - _META_BYTES, 0)
    files = {META_FILE: FileFacts(_META_BYTES, block.touched)}
    if block.loadable:
        files[CHUNK_FILE] = FileFacts(size, block.touched)
    return Folder(block.ulid, files, meta_of(block, size), block.sources)


def meta_of(block: Block, chunk_bytes: int = 0) -> Meta:
    """Return what the block's meta.json says."""
    chunk = covering_chunk(block.min_time, max(block.max_time, block.min_time + 1), block.granularity)
    lies_in = chunk or Chunk(block.min_time, block.max_time, block.granularity)
    alone = block.group == block.ulid and block.group_size == 1
    extension = Extension(
        format_version=FORMAT_VERSION,
        stream=STREAM,
        schema_fingerprint="0" * 32,
        time_chunk=TimeChunk(start=lies_in.start, end=lies_in.end, granularity=block.granularity),
        time_column="time",
        sort_key=("time",),
        group=None if alone else Group(id=block.group, size=block.group_size, index=block.group_index),
        generation=block.generation,
        rewrite=block.rewrite,
        edits=tuple(sorted(block.edits)),
        retires=tuple(sorted(block.retires, key=lambda pair: (pair.by, pair.root))),
        ignore_delay=block.ignore_delay,
    )
    return Meta(
        version=1,
        ulid=block.ulid,
        min_time=block.min_time,
        max_time=block.max_time,
        stats=Stats(num_samples=block.rows, num_chunks=1),
        compaction=Compaction(level=block.level, sources=tuple(sorted(block.sources))),
        thanos=Thanos(
            labels={"stream": STREAM},
            downsample=Downsample(resolution=block.resolution),
            source="drystone.test",
            files=(File(rel_path=CHUNK_FILE, size_bytes=chunk_bytes), File(rel_path=META_FILE)),
            extensions={"drystone": extension.model_dump(mode="json", exclude_none=True)},
        ),
    )


def marked(folder: Folder, since: int, *, as_block: str = "", details: str = "test") -> Folder:
    """Return the folder with a deletion mark that was set at `since` (ms), as that of another block if one is named."""
    mark = DeletionMark(id=as_block or folder.ulid, details=details, deletion_time=since // 1000)
    return replace(folder, files={**folder.files, DELETION_MARK: FileFacts(100, since)}, mark=mark)


def no_compact(folder: Folder) -> Folder:
    """Return the folder with a mark that tells planners to leave it alone."""
    return replace(folder, files={**folder.files, NO_COMPACT_MARK: FileFacts(100, 0)})


def without_meta(folder: Folder) -> Folder:
    """Return the folder without its meta.json: not yet uploaded, or deleted already."""
    files = {name: facts for name, facts in folder.files.items() if name != META_FILE}
    return Folder(folder.ulid, files, mark=folder.mark, mark_error=folder.mark_error)


def snapshot_of(
    folders: Iterable[Folder],
    now: int,
    *,
    edits: Iterable[Edit] = (),
    holds: Iterable[Hold] = (),
    pins: Iterable[Pin] = (),
    journal: Iterable[Attempt] = (),
) -> Snapshot:
    """Return a snapshot of these folders, taken at `now` (ms)."""
    by_ulid: Mapping[str, Folder] = {folder.ulid: folder for folder in sorted(folders, key=lambda each: each.ulid)}
    return Snapshot(STREAM, now, by_ulid, tuple(edits), tuple(holds), tuple(pins), (), tuple(journal))
