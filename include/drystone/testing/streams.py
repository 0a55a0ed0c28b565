"""Real streams of real blocks, made to order: every block goes through the engine that makes all others."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from drystone import ulids
from drystone.block.chunks import Chunk, covering_chunk
from drystone.block.meta import Group, Meta, Parent, Replacement, Rewrite, TimeChunk
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.engine.record import apply_config, keep_schema
from drystone.engine.upload import Origin, new_extension, upload_block
from drystone.rows import keys
from drystone.rows.arrow_schema import SOURCE_COLUMN, from_arrow, to_arrow
from drystone.rows.writer import Built, ChunkWriter


@dataclass
class ManualClock:
    """A clock that moves when it is told to. `now`: ms since the epoch."""

    now: int

    def __call__(self) -> int:
        """Return the time."""
        return self.now

    def advance(self, ms: int) -> None:
        """Move on."""
        self.now += ms


@dataclass(frozen=True, slots=True)
class Lineage:
    """What a block says of where its rows came from, beyond its first source: see `Extension` and `Compaction`."""

    level: int = 1
    group: Group | None = None
    parents: tuple[Parent, ...] = ()
    edits: tuple[str, ...] = ()
    retires: tuple[Replacement, ...] = ()
    rewrite: int = 0
    rewritten: Rewrite | None = None
    ignore_delay: bool = False


FIRST_GENERATION = Lineage()


def write_record(bucket: Bucket, stream: str, config: StreamConfig) -> None:
    """Make the stream known to readers, as its first ingest would."""
    apply_config(bucket, stream, config)


def source_id(planned_at: int, name: str) -> str:
    """Return a source id of that planning time (ms), always the same for the same name."""
    return ulids.derive(planned_at, name)


def with_source(rows: pa.Table, source: str) -> pa.Table:
    """Return the rows with `__source`, as rows of that source."""
    column = pa.array([ulids.to_bytes(source)] * rows.num_rows, pa.binary())
    return rows.append_column(SOURCE_COLUMN, column)


def build_block(
    bucket: Bucket,
    stream: str,
    config: StreamConfig,
    rows: pa.Table,
    clock: Clock,
    *,
    sources: Iterable[str] = (),
    lineage: Lineage = FIRST_GENERATION,
    row_group_rows: int = 1024,
) -> Meta:
    """Upload a block of these rows, in any order, as of the clock's time; return its meta.json.

    `rows` have the stream's columns and `__source`. `sources`: the whole source set, by default that of the rows.
    The block lies in the finest time chunk, no finer than the stream's own, that holds its rows: those with a time, or,
    where none has one, that of the time when their first source was planned.
    """
    plain = rows.drop_columns([SOURCE_COLUMN])
    schema = from_arrow(plain.schema)
    with tempfile.TemporaryDirectory(prefix="drystone-") as folder:
        writer = ChunkWriter(
            Path(folder),
            to_arrow(schema, with_source=True),
            config.sort_key,
            config.time_column,
            row_group_rows=row_group_rows,
        )
        writer.write(keys.sort_table(rows, config.sort_key))
        built = writer.close()
        fingerprint = keep_schema(bucket, stream, schema)
        origin = _origin(stream, config, built, fingerprint, frozenset(sources) or built.sources, lineage)
        return upload_block(bucket, built, origin, config.times.upload_timeout, clock)


def _origin(
    stream: str, config: StreamConfig, built: Built, fingerprint: str, sources: frozenset[str], lineage: Lineage
) -> Origin:
    planned_at = ulids.time_of(min(sources)) if built.unknown else 0
    low, high = built.min_time or planned_at, built.max_time or planned_at
    chunk = covering_chunk(low, max(high, low + 1), config.granularity.ingest) or Chunk(low, high, "year")
    low, high = built.time_range((chunk.start, chunk.end))
    extension = new_extension(
        stream=stream,
        schema_fingerprint=fingerprint,
        time_chunk=TimeChunk(start=chunk.start, end=chunk.end, granularity=chunk.granularity),
        time_column=config.time_column,
        sort_key=config.sort_key,
        group=lineage.group,
        generation=config.generation,
        rewrite=lineage.rewrite,
        checksum=built.checksum,
        edits=lineage.edits,
        retires=lineage.retires,
        rewritten=lineage.rewritten,
        ignore_delay=lineage.ignore_delay,
        operation="built",
    )
    return Origin(
        stream=stream,
        verb="upload" if lineage.level == 1 else "compact",
        labels=config.labels,
        extension=extension,
        sources=sources,
        level=lineage.level,
        min_time=low,
        max_time=high,
        parents=lineage.parents,
    )
