"""Adopting blocks: found where they lie, and given a new ULID in the stream, files and sources as they are.

A block of another tool has no sources in its rows: it is sorted and written anew, as one source. Source: the design,
"Blocks: guards" and "Visibility: foreign blocks".
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from drystone.block import keys
from drystone.block import meta as block_meta
from drystone.block import sources as block_sources
from drystone.block.chunks import covering_chunk
from drystone.block.folder import Folder
from drystone.block.meta import INDEX_FILE, META_FILE, SOURCES_FILE, Extension, File, Group, Meta, Parent, TimeChunk
from drystone.block.schema import Schema
from drystone.bucket import open_bucket
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.engine.compact import failure_of
from drystone.engine.job import Job
from drystone.engine.record import keep_schema, read_schema
from drystone.engine.upload import Origin, new_extension, upload_block
from drystone.errors import InputError, InvariantError, ObjectMissingError, UnreadableBlockError
from drystone.plan.adopt import Place, Stranger
from drystone.plan.model import Adopt
from drystone.rows.arrow_schema import from_arrow, to_arrow
from drystone.rows.checksum import ContentChecksum
from drystone.rows.index import read_index
from drystone.rows.sorting import sort_files
from drystone.rows.writer import Built, BuiltFile, ChunkWriter
from drystone.timeline.snapshot import Snapshot
from drystone.tracker import ListingTracker

_PIECE = 8 << 20
_MAGIC = b"PAR1"


def look_at(job: Job, origin: str | None, stream: str | None) -> Place:
    """Return what blocks there are: in another bucket or stream, or, by default, in the job's own.

    Costs a listing there, and of blocks of other tools the first bytes of each chunk.
    """
    bucket = job.bucket if origin is None else open_bucket(origin)
    name = job.stream if stream is None else stream
    own = (bucket.url, name) == (job.bucket.url, job.stream)
    tracker = job.tracker if own else ListingTracker(bucket, name)
    strangers: dict[str, Stranger] = {}
    unusable: dict[str, str] = {}
    for folder in tracker.observe(job.clock()).folders.values():
        found = _stranger(bucket, name, folder)
        if isinstance(found, Stranger):
            strangers[folder.ulid] = found
        else:
            unusable[folder.ulid] = found
    return Place(bucket.url, name, own, strangers, unusable)


def _stranger(bucket: Bucket, stream: str, folder: Folder) -> Stranger | str:
    meta = folder.meta
    if meta is None:
        if not folder.has_meta:
            return "it has no meta.json"
        try:
            # A folder that somebody gave another name: what it holds may be whole all the same.
            raw = bucket.get(keys.block(stream, folder.ulid, META_FILE))
            meta = block_meta.parse(raw, block_meta.named_in(raw))
        except (UnreadableBlockError, ObjectMissingError):
            return folder.meta_error
        folder = replace(folder, meta=meta)
    if missing := folder.missing_files():
        return "; ".join(missing)
    if meta.drystone is not None:
        return Stranger(folder, meta)
    chunks = [name for name in folder.files if name.startswith("chunks/")]
    heads = (bucket.get_range(keys.block(stream, folder.ulid, name), 0, len(_MAGIC)) for name in chunks)
    return Stranger(folder, meta, parquet=bool(chunks) and all(head == _MAGIC for head in heads))


@dataclass(frozen=True, slots=True)
class AdoptTask:
    """One block to adopt, in any process."""

    bucket: Bucket
    stream: str
    config: StreamConfig
    action: Adopt
    ulid: str
    schema: Schema | None
    edits: frozenset[str]
    stamp: Mapping[str, Any]
    clock: Clock


@dataclass(frozen=True, slots=True)
class Adopted:
    """What became of a task: the new block, or why it failed."""

    key: str
    ulid: str = ""
    sources: frozenset[str] = frozenset()
    error: str = ""
    retryable: bool = False


def adopt_task(job: Job, snapshot: Snapshot, action: Adopt, ulid: str, schema: Schema | None) -> AdoptTask:
    """Return the task for one block. `schema`: the stream's so far, for a block of another tool; None without one."""
    return AdoptTask(
        bucket=job.bucket,
        stream=job.stream,
        config=job.config,
        action=action,
        ulid=ulid,
        schema=schema,
        edits=frozenset(edit.id for edit in snapshot.edits),
        stamp=job.coordination.stamp(),
        clock=job.workers.clock,
    )


def adopt_block(task: AdoptTask) -> Adopted:
    """Adopt one block; never raises for what is wrong with it."""
    try:
        with tempfile.TemporaryDirectory(prefix="drystone-") as folder:
            there = open_bucket(task.action.origin) if task.action.origin != task.bucket.url else task.bucket
            raw = there.get(keys.block(task.action.origin_stream, task.ulid, META_FILE))
            meta = block_meta.parse(raw, block_meta.named_in(raw))
            made = _copy if meta.drystone is not None else _write_anew
            return made(task, there, meta, Path(folder))
    except Exception as error:  # noqa: BLE001 - the boundary: whatever happened to one block is its result
        text, retryable = failure_of(error)
        return Adopted(task.action.key, error=f"block {task.ulid}: {text}", retryable=retryable)


def _copy(task: AdoptTask, there: Bucket, meta: Meta, folder: Path) -> Adopted:
    """Copy a block of Drystone's with its files as they are; every one is held against its recorded digest."""
    extension, stream = meta.drystone, task.action.origin_stream
    if extension is None:
        raise InputError(f"block {task.ulid} has no Drystone part.", "Plan again.")
    sources = frozenset(meta.compaction.sources)
    if extension.sources_file is not None:
        raw = there.get(keys.block(stream, task.ulid, SOURCES_FILE))
        sources = block_sources.parse(raw, extension.sources_file, meta.ulid)
    files = tuple(
        _fetch(there, keys.block(stream, task.ulid, file.rel_path), file, folder)
        for file in meta.thanos.files
        if file.rel_path not in {META_FILE, SOURCES_FILE}
    )
    keep_schema(task.bucket, task.stream, read_schema(there, stream, extension.schema_fingerprint))
    built = Built(
        folder=folder,
        files=files,
        entries=tuple(read_index((folder / INDEX_FILE).read_bytes())),
        rows=meta.stats.num_samples,
        unknown=extension.unknown_times,
        min_time=meta.min_time,
        max_time=meta.max_time,
        checksum=extension.checksum,
        sources=sources,
    )
    origin = Origin(
        stream=task.stream,
        verb="repair.adopt",
        labels=task.config.labels,
        extension=_as_ours(task, extension),
        sources=sources,
        level=meta.compaction.level,
        min_time=meta.min_time,
        max_time=meta.max_time,
        parents=(_parent(meta),),
    )
    made = upload_block(task.bucket, built, origin, task.config.times.upload_timeout, task.clock)
    return Adopted(task.action.key, made.ulid, sources)


def _as_ours(task: AdoptTask, extension: Extension) -> Extension:
    """Return what a copy says of itself in the stream."""
    group = extension.group
    changed = {
        "stream": task.stream,
        "group": None if group is None else Group(id=task.action.as_group, size=group.size, index=group.index),
        # What another stream's edits were is nobody's business here; those of this one keep their word.
        "edits": tuple(edit for edit in extension.edits if edit in task.edits),
        "sources_file": None,
        "ignore_delay": False,
        "operation": task.action.key,
        **task.stamp,
    }
    return extension.model_copy(update=changed)


def _write_anew(task: AdoptTask, there: Bucket, meta: Meta, folder: Path) -> Adopted:
    """Sort the rows of another tool's block, and write them as a block of one source of its own."""
    prefix = keys.block(task.action.origin_stream, task.ulid, "chunks/")
    files = []
    for item in there.list(prefix):
        file = File(rel_path=f"theirs/{item.key.removeprefix(prefix)}", size_bytes=item.size)
        files.append(folder / _fetch(there, item.key, file, folder).rel_path)
    temp = folder / "temp"
    temp.mkdir()
    rules, read = task.config.compaction, ContentChecksum()
    schema = task.schema or from_arrow(pq.read_schema(files[0]))
    writer = ChunkWriter(
        folder,
        to_arrow(schema, with_source=True),
        task.config.sort_key,
        task.config.time_column,
        rules.row_group_rows,
    )
    for table in sort_files(
        files,
        to_arrow(schema),
        task.config.sort_key,
        task.action.source,
        read,
        memory=rules.memory_per_task,
        row_group_rows=rules.row_group_rows,
        temp=temp,
    ):
        writer.write(table)
    built = writer.close()
    if (built.rows, built.checksum) != (read.rows, read.hex):
        msg = f"{read.rows} rows of checksum {read.hex} came in, {built.rows} of {built.checksum} out."
        raise InvariantError(msg, "Nothing was uploaded; please report this.")
    made = _upload_anew(task, meta, built, keep_schema(task.bucket, task.stream, schema))
    return Adopted(task.action.key, made.ulid, frozenset({task.action.source}))


def _upload_anew(task: AdoptTask, meta: Meta, built: Built, fingerprint: str) -> Meta:
    low, high = built.time_range((meta.min_time, meta.max_time))
    chunk = covering_chunk(low, max(high, low + 1), task.config.granularity.ingest)
    if chunk is None:
        raise InputError(f"no single time chunk holds the rows of block {meta.ulid}.", "Ingest its files instead.")
    extension = new_extension(
        stream=task.stream,
        schema_fingerprint=fingerprint,
        time_chunk=TimeChunk(start=chunk.start, end=chunk.end, granularity=chunk.granularity),
        time_column=task.config.time_column,
        sort_key=task.config.sort_key,
        generation=task.config.generation,
        checksum=built.checksum,
        operation=task.action.key,
        **task.stamp,
    )
    origin = Origin(
        stream=task.stream,
        verb="repair.adopt",
        labels=task.config.labels,
        extension=extension,
        sources=frozenset({task.action.source}),
        level=1,
        min_time=low,
        max_time=high,
        parents=(_parent(meta),),
    )
    return upload_block(task.bucket, built, origin, task.config.times.upload_timeout, task.clock)


def _parent(meta: Meta) -> Parent:
    return Parent(ulid=meta.ulid, min_time=meta.min_time, max_time=meta.max_time)


def _fetch(bucket: Bucket, key: str, file: File, folder: Path) -> BuiltFile:
    """Bring a file here piece by piece; raise InvariantError if it is not the one that meta.json names."""
    path = folder / file.rel_path
    path.parent.mkdir(parents=True, exist_ok=True)
    digest, size = hashlib.sha256(), 0
    with path.open("wb") as target:
        while piece := bucket.get_range(key, size, _PIECE):
            digest.update(piece)
            target.write(piece)
            size += len(piece)
    expected = file.hash.value if file.hash is not None and file.hash.hash_func == "SHA256" else digest.hexdigest()
    if file.size_bytes not in {None, size} or expected != digest.hexdigest():
        raise InvariantError(f"{key} is not the file that meta.json names.", "Restore it, and plan again.")
    return BuiltFile(file.rel_path, size, digest.hexdigest())
