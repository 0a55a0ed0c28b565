"""Which rows a predicate selects, among those that a reader sees: counted by the source that they are read from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from drystone import ulids
from drystone.block import keys, predicates
from drystone.block.meta import Meta
from drystone.block.predicates import Predicate
from drystone.bucket.files import open_input
from drystone.bucket.protocol import Bucket
from drystone.engine.decoding import decoding
from drystone.engine.job import Job
from drystone.rows import expressions
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, Visible


@dataclass(frozen=True, slots=True)
class _Search:
    """One block to look through."""

    bucket: Bucket
    stream: str
    time_column: str
    where: Predicate
    visible: Visible
    meta: Meta


def find_matches(
    job: Job, snapshot: Snapshot, timeline: Timeline, where: Predicate, blocks: frozenset[str]
) -> dict[str, dict[str, int]]:
    """Return, by visible group and source that is read from it, how many rows the predicate selects.

    `blocks`: look only into the groups of these, or, if there are none, into all of the stream's generation. Reads the
    columns that are needed, of every row. Raises InputError for a value that cannot be compared, DamagedStreamError and
    ObjectMissingError for what cannot be read.
    """
    searches = list(_searches(job, snapshot, timeline, where, blocks))
    found: dict[str, Counter[str]] = {}
    for search, matches in zip(searches, job.workers.map(_count, searches) if searches else (), strict=True):
        found.setdefault(search.visible.group.id, Counter()).update(matches)
    return {name: dict(counts) for name, counts in found.items() if counts}


def _searches(
    job: Job, snapshot: Snapshot, timeline: Timeline, where: Predicate, blocks: frozenset[str]
) -> Iterator[_Search]:
    for visible in timeline.visible.values():
        group = visible.group
        if group.pattern.generation != job.config.generation or group.pattern.resolution:
            continue
        if blocks and blocks.isdisjoint(block.ulid for block in group.members):
            continue
        for block in group.members:
            meta = snapshot.folders[block.ulid].meta
            if meta is not None and block.rows:
                yield _Search(job.bucket, job.stream, job.config.time_column, where, visible, meta)


def _count(search: _Search) -> Counter[str]:
    found: Counter[str] = Counter()
    for file in search.meta.thanos.files:
        if file.rel_path.startswith("chunks/"):
            found.update(_count_in(search, file.rel_path, file.size_bytes or 0))
    return found


def _count_in(search: _Search, name: str, size: int) -> Counter[str]:
    where, visible = f"block {search.meta.ulid}: {name}", search.visible
    found: Counter[str] = Counter()
    key = keys.block(search.stream, search.meta.ulid, name)
    with closing(open_input(search.bucket, key, size)) as source, decoding(where):
        parquet = pq.ParquetFile(source, read_dictionary=[SOURCE_COLUMN])
        own = parquet.schema_arrow
        keep = expressions.selected_by(search.where, own)
        needed = predicates.columns(search.where) | {SOURCE_COLUMN}
        for edit in visible.edits:
            keep &= ~expressions.dropped_by(edit, search.time_column, own)
            needed |= expressions.columns_of(edit, search.time_column)
        columns = [column for column in own.names if column in needed]
        for batch in parquet.iter_batches(columns=columns, use_threads=False):
            found.update(_sources_of(batch, keep))
    return Counter({ulid: count for ulid, count in found.items() if ulid not in visible.excluded})


def _sources_of(batch: pa.RecordBatch, keep: pc.Expression) -> dict[str, int]:
    hit = pa.Table.from_batches([batch]).filter(keep).column(SOURCE_COLUMN)
    counts = pc.value_counts(hit.cast(pa.binary())).to_pylist()
    return {ulids.from_bytes(each["values"]): each["counts"] for each in counts}
