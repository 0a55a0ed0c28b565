"""Judging blocks that nobody can believe: whether what they hold exists elsewhere, or is lost.

The timeline knows no more of a block with an unusable meta.json than its name, and must take it for damage. Its rows
know more: each names its source. Source: the design, "Visibility: damage" and "A bad block harms nobody else".
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pyarrow.compute as pc
import pyarrow.parquet as pq

from drystone import ulids
from drystone.block import keys
from drystone.block.folder import Folder
from drystone.bucket.files import open_input
from drystone.bucket.protocol import Bucket
from drystone.engine import audit
from drystone.engine.decoding import decoding
from drystone.errors import DamagedStreamError
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.timeline.gone import find_gone
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline

_SOURCE_BYTES = 16


def judge(bucket: Bucket, snapshot: Snapshot, timeline: Timeline, generation: int) -> Timeline:
    """Return the timeline without the damage that is none: unreadable blocks whose every row is read from elsewhere.

    They stay among its problems. Costs nothing where there is no such block; else it reads the column `__source` of its
    chunks. What has no chunks is damage only if the audit log knows it as once whole. Raises BucketError, and
    ObjectMissingError if a chunk vanishes meanwhile.
    """
    suspects = {name: found for each in timeline.damage if (found := _blocks(snapshot, name := each.name))}
    if not suspects:
        return timeline
    held = _held(snapshot, timeline, generation)
    innocent = {
        name
        for name, folders in suspects.items()
        if all(_is_held(bucket, snapshot.stream, folder, held) for folder in folders)
    }
    return replace(timeline, damage=tuple(each for each in timeline.damage if each.name not in innocent))


def _blocks(snapshot: Snapshot, name: str) -> list[Folder]:
    """Return what a damage of this name is about: a block with an unusable meta.json, or the blocks of a group."""
    folder = snapshot.folders.get(name)
    if folder is not None and folder.meta_error:
        return [folder]
    return [folder for folder in snapshot.folders.values() if _group(folder) == name]


def _group(folder: Folder) -> str:
    extension = folder.meta.drystone if folder.meta is not None else None
    return extension.group.id if extension is not None and extension.group is not None else ""


def _held(snapshot: Snapshot, timeline: Timeline, generation: int) -> frozenset[str]:
    """Return the sources that visible groups hold, and those that are to be read nowhere."""
    ready = [timeline.groups[name] for name in (*timeline.visible, *timeline.covered, *timeline.out)]
    visible = (each.group for each in timeline.visible.values() if each.group.pattern.generation == generation)
    return find_gone(ready, snapshot.edits).sources.union(*(group.sources for group in visible))


def _is_held(bucket: Bucket, stream: str, folder: Folder, held: frozenset[str]) -> bool:
    """Tell whether no row of the block is missed, in spite of all that is wrong with it."""
    if folder.meta is not None and not folder.sources <= held:
        return False
    chunks = {name: facts.size for name, facts in folder.files.items() if name.startswith("chunks/")}
    if not chunks:
        return folder.ulid not in audit.uploaded(bucket, stream)
    try:
        return all(
            _sources_in(bucket, keys.block(stream, folder.ulid, name), size) <= held for name, size in chunks.items()
        )
    except DamagedStreamError:
        return False  # Nobody can tell what is in it.


def contents_of(bucket: Bucket, stream: str, folder: Folder) -> frozenset[str] | None:
    """Return the sources that a block has rows of, by its meta.json or else by its rows; None if nobody can tell.

    Rows of a file that is missing or damaged may be of any source. Raises BucketError.
    """
    if folder.meta is not None:
        return folder.sources
    chunks = {name: facts.size for name, facts in folder.files.items() if name.startswith("chunks/")}
    try:
        found = [_sources_in(bucket, keys.block(stream, folder.ulid, name), size) for name, size in chunks.items()]
    except DamagedStreamError:
        return None
    return frozenset().union(*found) if found else None


def _sources_in(bucket: Bucket, key: str, size: int) -> frozenset[str]:
    """Return the sources that the rows of a chunk name; raise DamagedStreamError if it cannot be told."""
    with closing(open_input(bucket, key, size)) as source, decoding(key):
        parquet = pq.ParquetFile(source, read_dictionary=[SOURCE_COLUMN])
        if SOURCE_COLUMN not in parquet.schema_arrow.names:
            raise DamagedStreamError(f"{key} has no column {SOURCE_COLUMN}.")
        found: set[str] = set()
        for batch in parquet.iter_batches(columns=[SOURCE_COLUMN], use_threads=False):
            values = pc.unique(batch.column(0).dictionary_decode())
            if values.null_count or any(len(raw) != _SOURCE_BYTES for raw in values.to_pylist()):
                raise DamagedStreamError(f"{key} has rows without a source.")
            found |= {ulids.from_bytes(raw) for raw in values.to_pylist()}
        return frozenset(found)
