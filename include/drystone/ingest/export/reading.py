"""The messages of an ingest plan, in the order of their offsets, from whichever blocks hold its sources now.

Source: the design, "Visibility": each source is read from one group, less what edits take away.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from drystone.bucket.files import open_input
from drystone.bucket.protocol import Bucket
from drystone.config.ingest import MESSAGE_TIME, POSITION
from drystone.ingest.formats.protocol import COLUMNS
from drystone.ingest.kafka.plans import Plan
from drystone.reader.view import ChunkFile
from drystone.rows import expressions
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.fan_in import plan_fan_in
from drystone.rows.merge import merge_sorted
from drystone.rows.reading import SortedFile, describe, open_sorted
from drystone.timeline.pending import PendingEdit

_TOPIC, _PARTITION, _OFFSET = POSITION
_NAMES = {_OFFSET: "offset", MESSAGE_TIME: "timestamp", "key": "key", "value": "value"}
_POSITIONS = {_OFFSET: "offset", MESSAGE_TIME: "timestamp"}
_OUT_ROWS = 1024
"""Messages that are handed on at a time: they may be large."""


@dataclass(frozen=True, slots=True)
class Part:
    """What to read of one block: the rows of these sources, less what edits take."""

    block: str
    files: tuple[ChunkFile, ...]
    sources: frozenset[str]
    edits: tuple[PendingEdit, ...]


@dataclass(frozen=True, slots=True)
class Messages:
    """The messages of an ingest plan, wherever they are. `memory`: bytes that reading them may take."""

    bucket: Bucket
    plan: Plan
    parts: tuple[Part, ...]
    memory: int

    def positions(self) -> Iterator[pa.RecordBatch]:
        """Yield offset and timestamp of every message, in no particular order."""
        for part in self.parts:
            for file in self._files(part):
                yield from self._read(part, file, _POSITIONS, _OUT_ROWS)

    def in_order(self, temp: Path) -> Iterator[pa.RecordBatch]:
        """Yield all messages as writers take them, by offset; `temp`: an empty folder for what does not fit."""
        opened = [(part, file) for part in self.parts for file in self._files(part)]
        if not opened:
            return
        files = [file for _, file in opened]
        row, held = (max(getattr(file, name) for file in files) for name in ("row_bytes", "open_bytes"))
        how = plan_fan_in(len(opened), row, held, self.memory, _OUT_ROWS)
        inputs = [self._read(part, file, _NAMES, how.batch_rows) for part, file in opened]
        merged = merge_sorted(
            inputs,
            ("offset",),
            names=[file.name for file in files],
            batch_rows=how.batch_rows,
            out_rows=_OUT_ROWS,
            fan_in=how.fan_in,
            temp=temp,
        )
        for table in merged:
            yield from table.cast(COLUMNS).combine_chunks().to_batches()

    def _files(self, part: Part) -> Iterator[SortedFile]:
        for file in part.files:
            yield describe(f"block {part.block}: {file.name}", partial(open_input, self.bucket, file.key, file.size))

    def _read(self, part: Part, file: SortedFile, names: dict[str, str], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """Yield the plan's rows of one file with these columns, under their new names, in their order."""
        groups = [number for number in range(file.metadata.num_row_groups) if self._may_hold(file, number)]
        if not groups:
            return
        keep = expressions.in_sources(part.sources)
        needed = {*names, SOURCE_COLUMN}
        for edit in part.edits:
            keep &= ~expressions.dropped_by(edit, MESSAGE_TIME, file.schema)
            needed |= expressions.columns_of(edit, MESSAGE_TIME)
        wanted = pa.schema([field for field in file.schema if field.name in needed])
        with contextlib.closing(open_sorted(file, wanted, batch_rows=batch_rows, row_groups=groups)) as batches:  # type: ignore[type-var]
            for batch in batches:
                table = _plain(batch).filter(keep)
                if table.num_rows:
                    yield from table.select([*names]).rename_columns([*names.values()]).to_batches()

    def _may_hold(self, file: SortedFile, group: int) -> bool:
        """Tell by statistics whether a row group may hold messages of the plan: a compacted block has many others."""
        plan, metadata = self.plan, file.metadata.row_group(group)
        ranges = {
            _TOPIC: (plan.topic, plan.topic),
            _PARTITION: (plan.partition,) * 2,
            _OFFSET: (plan.start, plan.end - 1),
        }
        for name, (low, high) in ranges.items():
            found = metadata.column(file.schema.get_field_index(name)).statistics
            if found is not None and found.has_min_max and (found.max < low or found.min > high):
                return False
        return True


def _plain(batch: pa.RecordBatch) -> pa.Table:
    """Return a batch without dictionaries, which filters do not take."""
    arrays = [each.cast(each.type.value_type) if pa.types.is_dictionary(each.type) else each for each in batch.columns]
    return pa.Table.from_arrays(arrays, names=batch.schema.names)
