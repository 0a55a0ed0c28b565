"""Building and uploading first-generation blocks, inside a Spark task or anywhere else."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from pydantic import BaseModel

from drystone import ulids
from drystone.block.chunks import Chunk, chunk_at
from drystone.block.folder import Folder
from drystone.block.meta import Group, Meta, Replacement
from drystone.block.schema import Schema
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.engine.upload import Origin, upload_block
from drystone.ingest.files import FilePlan, PlannedFile, list_sources
from drystone.ingest.origin import Target
from drystone.rows.arrow_schema import SOURCE_COLUMN, to_arrow
from drystone.rows.writer import Built, ChunkWriter
from drystone.timeline.blocks import block_of
from drystone.timeline.groups import group_blocks

_PATH = "__path"
_CHUNK = "__chunk"


class BuiltSource(BaseModel):
    """One source that a task came across: its block's ULID, or "" where the source had one before."""

    source: str
    path: str
    ulid: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Parts:
    """The group that stands for what a file replaces: its id, and the time chunks (starts, ms) that its blocks lie in.

    `with_root`: nothing of what it replaces was ever uploaded, so that a source of no rows stands for that.
    """

    group: str
    starts: tuple[int, ...]
    with_root: bool

    def member(self, start: int) -> Group | None:
        """Return what the block of one chunk says of the group; None if it is the only one."""
        several = len(self.starts) > 1
        return Group(id=self.group, size=len(self.starts), index=self.starts.index(start)) if several else None


@dataclass
class _Open:
    """The block that a task is writing."""

    plan: FilePlan
    chunk: Chunk
    source: str
    parts: Parts | None
    writer: ChunkWriter
    folder: tempfile.TemporaryDirectory[str]


@dataclass(frozen=True)
class BlockBuilder:
    """Turns rows sorted by (path, chunk, sort key) into uploaded blocks, one per path and chunk; yields JSON lines.

    `files` maps local paths to planned files; rows of sources in `present` are passed over. `parts`: by planned path,
    the groups of those that replace something. Memory is bounded by a row group. Raises what `upload_block` and the
    writer raise, SourceChangedError if a file changed since it was planned; nothing that it began stays readable then.
    """

    bucket: Bucket
    stream: str
    config: StreamConfig
    schema: Schema
    fingerprint: str
    files: Mapping[str, PlannedFile]
    present: frozenset[str]
    stamp: Mapping[str, Any]
    operation: str
    clock: Clock
    parts: Mapping[str, Parts] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run in a task; what is yielded has one column of text, `result`."""
        current: _Open | None = None
        key: tuple[str, int] | None = None
        try:
            for batch in batches:
                for piece_key, piece in _pieces(batch):
                    if piece_key != key:
                        if current is not None:
                            yield _line(self._finish(current))
                        key = piece_key
                        current, skipped = self._begin(*piece_key)
                        if skipped is not None:
                            yield _line(skipped)
                    if current is not None:
                        current.writer.write(self._rows(piece, current.source))
            if current is not None:
                yield _line(self._finish(current))
        finally:
            if current is not None:
                current.folder.cleanup()

    def _begin(self, path: str, start: int) -> tuple[_Open | None, BuiltSource | None]:
        file = self.files[local_path(path)]
        # All rows have been read by now, for a shuffle lies between: if the file is as it was, so are they.
        file.stamp.check(file.location)
        plan = file.plan
        chunk = chunk_at(start, self.config.granularity.ingest)
        source = plan.source(chunk)
        if source in self.present:
            return None, BuiltSource(source=source, path=plan.path, ulid="", rows=0, bytes=0)
        folder = tempfile.TemporaryDirectory(prefix="drystone-")
        return _Open(plan, chunk, source, self.parts.get(plan.path), self._writer(folder.name), folder), None

    def _writer(self, folder: str) -> ChunkWriter:
        return ChunkWriter(
            Path(folder),
            to_arrow(self.schema, with_source=True),
            self.config.sort_key,
            self.config.time_column,
            row_group_rows=self.config.compaction.row_group_rows,
        )

    def _rows(self, piece: pa.RecordBatch, source: str) -> pa.Table:
        schema = to_arrow(self.schema)
        columns = [piece.column(field.name).cast(field.type) for field in schema]
        codes = pa.array(np.zeros(piece.num_rows, np.int32))
        own = pa.DictionaryArray.from_arrays(codes, pa.array([ulids.to_bytes(source)], pa.binary()))
        return pa.table([*columns, own], names=[*schema.names, SOURCE_COLUMN])

    @property
    def _target(self) -> Target:
        return Target(self.stream, self.config, self.schema, self.fingerprint, self.operation, self.stamp)

    def _finish(self, done: _Open) -> BuiltSource:
        group = done.parts.member(done.chunk.start) if done.parts is not None else None
        retires = done.plan.retires(with_root=done.parts is not None and done.parts.with_root)
        with done.folder:
            built = done.writer.close()
            origin = self._target.origin(built, done.source, done.chunk, group=group, retires=retires)
            meta = self._upload(built, origin)
        return BuiltSource(source=done.source, path=done.plan.path, ulid=meta.ulid, rows=built.rows, bytes=built.size)

    def _upload(self, built: Built, origin: Origin) -> Meta:
        return upload_block(self.bucket, built, origin, self.config.times.upload_timeout, self.clock)

    def upload_empty(self) -> list[BuiltSource]:
        """Upload the blocks without rows that replacements need; to be done before, and not in a task.

        That is what stays where the new content has no row; and, where nothing was ever uploaded of what a group of
        several blocks replaces, a root: else half a group would be taken for rows that have got lost.
        """
        built: list[BuiltSource] = []
        for file in self.files.values():
            plan, parts = file.plan, self.parts.get(file.plan.path)
            chunk = chunk_at(plan.planned_at, self.config.granularity.ingest)
            if parts is None or plan.source(chunk) in self.present:
                continue
            if parts.with_root and plan.root not in self.present:
                built.append(self._empty(plan, plan.root, chunk))
            if not parts.starts:
                built.append(self._empty(plan, plan.source(chunk), chunk, plan.retires()))
        return built

    def _empty(self, plan: FilePlan, source: str, chunk: Chunk, retires: tuple[Replacement, ...] = ()) -> BuiltSource:
        with tempfile.TemporaryDirectory(prefix="drystone-") as folder:
            built = self._writer(folder).close()
            # A root must be there before half a group can be missed.
            origin = self._target.origin(built, source, chunk, retires=retires, ignore_delay=source == plan.root)
            meta = self._upload(built, origin)
        return BuiltSource(source=source, path=plan.path, ulid=meta.ulid, rows=0, bytes=built.size)


def local_path(uri: str) -> str:
    """Return the path of a file as Spark names it."""
    return "/" + unquote(uri.removeprefix("file:")).lstrip("/")


def prepared(builder: BlockBuilder, starts: Mapping[str, Collection[int]]) -> BlockBuilder:
    """Return a builder that knows what its files may replace; what may itself be replaced is written down first.

    `starts`: by local path, the starts of the time chunks (ms) that the file has rows in. Raises what `list_sources`
    raises, SourceChangedError if a file changed since it was planned.
    """
    parts: dict[str, Parts] = {}
    for location, file in builder.files.items():
        own = sorted(starts.get(location, ()))
        chunks = [chunk_at(start, builder.config.granularity.ingest) for start in own]
        file.stamp.check(file.location)
        if file.plan.replaces:
            nothing = len(own) > 1 and builder.present.isdisjoint(file.plan.replaces)
            parts[file.plan.path] = Parts(ulids.new(builder.clock()), tuple(own), with_root=nothing)
        elif file.plan.listed:
            list_sources(builder.bucket, file, [file.plan.source(chunk) for chunk in chunks])
    return replace(builder, parts=parts)


def sources_of(folders: Iterable[Folder]) -> frozenset[str]:
    """Return the sources of which these folders have every block."""
    blocks = (block for folder in folders if (block := block_of(folder)) is not None)
    groups, _ = group_blocks(blocks, now=0, sync_delay=0)
    return frozenset[str]().union(*(group.sources for group in groups.values() if group.complete))


def _line(result: BuiltSource) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"result": [result.model_dump_json()]})


def _pieces(batch: pa.RecordBatch) -> Iterator[tuple[tuple[str, int], pa.RecordBatch]]:
    """Cut a batch where its path or its chunk changes."""
    if not batch.num_rows:
        return
    paths = batch.column(batch.schema.get_field_index(_PATH)).dictionary_encode()
    codes = paths.indices.to_numpy(zero_copy_only=False)
    chunks = batch.column(batch.schema.get_field_index(_CHUNK)).to_numpy(zero_copy_only=False)
    changes = np.flatnonzero((np.diff(codes) != 0) | (np.diff(chunks) != 0)) + 1
    for start, end in pairwise([0, *changes.tolist(), batch.num_rows]):
        name = paths.dictionary[int(codes[start])].as_py()
        yield (name, int(chunks[start])), batch.slice(start, end - start)
