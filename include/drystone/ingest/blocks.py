"""Building and uploading first-generation blocks, inside a Spark task or anywhere else."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
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
from drystone.block.schema import Schema
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.engine.upload import upload_block
from drystone.ingest.files import FilePlan, PlannedFile
from drystone.ingest.origin import Target
from drystone.rows.arrow_schema import SOURCE_COLUMN, to_arrow
from drystone.rows.writer import ChunkWriter

_PATH = "__path"
_CHUNK = "__chunk"


class BuiltSource(BaseModel):
    """One source that a task came across: its block's ULID, or "" where the source had one before."""

    source: str
    path: str
    ulid: str
    rows: int
    bytes: int


@dataclass
class _Open:
    """The block that a task is writing."""

    plan: FilePlan
    chunk: Chunk
    source: str
    writer: ChunkWriter
    folder: tempfile.TemporaryDirectory[str]


@dataclass(frozen=True)
class BlockBuilder:
    """Turns rows sorted by (path, chunk, sort key) into uploaded blocks, one per path and chunk; yields JSON lines.

    `files` maps local paths to planned files; rows of sources in `present` are passed over. Memory is bounded by a row
    group. Raises what `upload_block` and the writer raise, SourceChangedError if a file changed since it was planned;
    nothing that it began stays readable then.
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
        file = self.files["/" + unquote(path.removeprefix("file:")).lstrip("/")]
        # All rows have been read by now, for a shuffle lies between: if the file is as it was, so are they.
        file.stamp.check(file.location)
        plan = file.plan
        chunk = chunk_at(start, self.config.granularity.ingest)
        source = plan.source(chunk)
        if source in self.present:
            return None, BuiltSource(source=source, path=plan.path, ulid="", rows=0, bytes=0)
        folder = tempfile.TemporaryDirectory(prefix="drystone-")
        writer = ChunkWriter(
            Path(folder.name),
            to_arrow(self.schema, with_source=True),
            self.config.sort_key,
            self.config.time_column,
            row_group_rows=self.config.compaction.row_group_rows,
        )
        return _Open(plan, chunk, source, writer, folder), None

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
        with done.folder:
            built = done.writer.close()
            deadline = self.config.times.upload_timeout
            origin = self._target.origin(built, done.source, done.chunk)
            meta = upload_block(self.bucket, built, origin, deadline, self.clock)
        return BuiltSource(source=done.source, path=done.plan.path, ulid=meta.ulid, rows=built.rows, bytes=built.size)


def sources_of(folders: Iterable[Folder]) -> frozenset[str]:
    """Return the sources of which these folders have a whole block."""
    return frozenset(source for folder in folders if folder.loadable for source in folder.sources)


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
