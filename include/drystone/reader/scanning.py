"""Reading a stream as Arrow batches, without Spark. Source: the design, "Visibility"."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from drystone import clock
from drystone.block import keys
from drystone.block.meta import INDEX_FILE
from drystone.bucket import open_bucket
from drystone.bucket.files import open_input
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.engine.decoding import decoding
from drystone.errors import DamagedStreamError, ObjectMissingError, UnreadableBlockError, UsageError
from drystone.reader.pins import pinned
from drystone.reader.view import BlockRead, ChunkFile, IncompleteReadWarning, View, block_reads, look, schema_of
from drystone.rows import expressions
from drystone.rows.arrow_schema import SOURCE_COLUMN, to_arrow
from drystone.rows.fetched import iter_batches, open_parquet
from drystone.rows.index import read_index
from drystone.tracker import Tracker

_PIN_MS = 24 * 3_600_000
Moment = datetime | int | None
"""A point in time: a datetime (naive: UTC), or ms since the epoch."""


def scan(
    bucket: Bucket | str,
    stream: str,
    start: Moment = None,
    end: Moment = None,
    columns: Sequence[str] | None = None,
    *,
    allow_incomplete: bool = False,
    pin: bool = False,
    tracker: Tracker | None = None,
    now: Clock | None = None,
    generation: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield every row of the stream with start <= time < end exactly once, as record batches in no particular order.

    `columns`: the columns to return, by default all of the stream's. Blocks and row groups out of range are not opened.
    A read must end within the stream's `read_timeout`, or be pinned with `pin=True`, which keeps removers off for as
    long as the iterator is open (at most a day). If a block vanishes meanwhile, it looks again once. A `tracker` of the
    stream that is kept from scan to scan spares the GETs of what it knows. `now`: the clock, by default the machine's.
    `generation`: whose rows, by default the newest's.

    Raises UsageError (no such stream or column), DamagedStreamError (rows that should be there cannot be read, and
    `allow_incomplete` is not set), BucketError (the store failed).
    """
    opened = open_bucket(bucket) if isinstance(bucket, str) else bucket
    low, high = to_ms(start), to_ms(end)
    now = now or clock.system
    with contextlib.ExitStack() as stack:
        if pin:
            stack.enter_context(pinned(opened, stream, "scan", _PIN_MS, now))
        view = look(opened, stream, now, tracker, generation)
        schema = output_schema(view, columns)
        done: set[str] = set()
        try:
            yield from _read(view, schema, low, high, done, allow_incomplete=allow_incomplete)
        except _VanishedError:
            view = look(opened, stream, now, tracker, generation)
            try:
                yield from _read(view, schema, low, high, done, allow_incomplete=allow_incomplete)
            except _VanishedError as again:
                msg = f"stream {stream}: block {again.ulid} vanished while it was read, twice."
                raise DamagedStreamError(msg, "Read again, with pin=True if reads take long.") from None


def to_ms(moment: Moment) -> int | None:
    """Return a moment in ms since the epoch."""
    if isinstance(moment, datetime):
        aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return round(aware.timestamp() * 1000)
    return moment


class _VanishedError(Exception):
    """A block was deleted between the look and the read, before any of its group's rows were handed out."""

    def __init__(self, ulid: str) -> None:
        super().__init__(ulid)
        self.ulid = ulid


def output_schema(view: View, columns: Sequence[str] | None) -> pa.Schema:
    """Return the schema of the batches that `scan` yields for these columns; raise UsageError for an unknown one."""
    schema = to_arrow(schema_of(view))
    if columns is None:
        return schema
    unknown = [name for name in columns if name not in schema.names]
    if unknown and schema.names:
        msg = f"stream {view.record.stream} has no column {', '.join(unknown)}."
        raise UsageError(msg, f"It has {', '.join(schema.names)}.")
    return pa.schema([schema.field(name) for name in columns if name in schema.names])


def _read(
    view: View, schema: pa.Schema, start: int | None, end: int | None, done: set[str], *, allow_incomplete: bool
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of all sources not in `done`, and add each group's sources to it when all its rows are out."""
    without = done | _replacing(view, done)
    reads = block_reads(view, start, end, allow_incomplete=allow_incomplete, without=without)
    begun = ""
    for position, read in enumerate(reads):
        try:
            for batch in _read_block(view, read, schema, start, end, allow_incomplete=allow_incomplete):
                begun = read.group.id
                yield batch
        except ObjectMissingError as error:
            if begun == read.group.id:
                msg = f"stream {view.record.stream}: block {read.ulid} vanished in the middle of a read ({error.key})."
                raise DamagedStreamError(msg, "Read again, with pin=True if reads take long.") from None
            raise _VanishedError(read.ulid) from None
        last = position + 1 == len(reads) or reads[position + 1].group.id != read.group.id
        if last:
            # Not what it left out when it was written: what stands for that is still to be read.
            done.update(read.group.sources - read.excluded - view.timeline.gone.sources)


def _replacing(view: View, done: set[str]) -> set[str]:
    """Return the sources that replace what was read already: a replacement may become ready between two looks."""
    found: set[str] = set()
    while new := {pair.by for pair in view.timeline.replacements if pair.root in done | found} - found:
        found |= new
    return found


def _read_block(
    view: View, read: BlockRead, schema: pa.Schema, start: int | None, end: int | None, *, allow_incomplete: bool
) -> Iterator[pa.RecordBatch]:
    wanted = _row_groups(view, read, start, end)
    keep = None if read.whole_in_range else expressions.between(view.record.time_column, start, end)
    if read.excluded:
        keep = _and(keep, ~expressions.in_sources(read.excluded))
    for file in read.files:
        groups = None if wanted is None else wanted.get(file.name, [])
        if groups == []:
            continue
        try:
            yield from _read_file(view, read, file, groups, keep, schema)
        except DamagedStreamError as error:
            if not allow_incomplete:
                raise
            msg = f"stream {view.record.stream}: rows are missing: {error.message}"
            warnings.warn(msg, IncompleteReadWarning, stacklevel=2)


def _read_file(
    view: View,
    read: BlockRead,
    file: ChunkFile,
    groups: list[int] | None,
    keep: pc.Expression | None,
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file's row groups that `keep` and the block's pending edits leave."""
    time, where = view.record.time_column, f"block {read.ulid}: {file.name}"
    with contextlib.closing(open_input(view.bucket, file.key, file.size)) as source:
        with decoding(where):
            parquet, fetched = open_parquet(source)
        own = parquet.schema_arrow
        needed = set(schema.names)
        if not read.whole_in_range:
            needed.add(time)
        if read.excluded:
            needed.add(SOURCE_COLUMN)
        for edit in read.edits:
            keep = _and(keep, ~expressions.dropped_by(edit, time, own))
            needed |= expressions.columns_of(edit, time)
        # An old block may have none of the columns; one is read all the same, for it tells how many rows there are.
        columns = [name for name in own.names if name in needed] or [time]
        batches = iter_batches(parquet, fetched, columns, groups)
        while True:
            with decoding(where):
                batch = next(batches, None)
            if batch is None:
                return
            yield from _conform(batch, keep, schema)


def _row_groups(view: View, read: BlockRead, start: int | None, end: int | None) -> dict[str, list[int]] | None:
    """Return which row groups of which file hold rows of the range, by the block's index; None for all of them."""
    if read.whole_in_range:
        return None
    raw = view.bucket.get(keys.block(view.record.stream, read.ulid, INDEX_FILE))
    try:
        with decoding(f"the index of block {read.ulid}"):
            entries = read_index(raw)
    except (UnreadableBlockError, DamagedStreamError):
        return None  # The index only spares work: every row is filtered too. `drystone verify` reports it.
    found: dict[str, list[int]] = {}
    for entry in entries:
        if entry.touches(start, end):
            found.setdefault(entry.file, []).append(entry.ordinal)
    return found


def _conform(batch: pa.RecordBatch, keep: pc.Expression | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the batch's kept rows in the output schema: columns by name, widened, and null where the block has none."""
    table = pa.Table.from_batches([batch])
    if keep is not None:
        table = table.filter(keep)
    arrays = [
        table.column(field.name).cast(field.type)
        if field.name in table.column_names
        else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    if table.num_rows:
        yield from pa.Table.from_arrays(arrays, schema=schema).to_batches()


def _and(one: pc.Expression | None, other: pc.Expression) -> pc.Expression:
    return other if one is None else one & other
