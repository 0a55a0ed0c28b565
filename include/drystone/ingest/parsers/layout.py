"""What a parser makes of a message: which value goes into which column, what its time is, and how rows split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.config.parser import FieldAt, Path, SplitBy, TimeAt
from drystone.ingest.parsers.protocol import Parsed
from drystone.ingest.parsers.splits import split_names
from drystone.ingest.parsers.times import TimeLimits
from drystone.rows.arrow_schema import arrow_type


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows of some messages of a batch: `positions` of those, `columns` in the order of the layout's.

    `times`: microseconds since the epoch, null where the message has none, not judged yet; None: they are not in the
    messages.
    """

    positions: np.ndarray
    columns: Sequence[pa.Array]
    times: pa.Array | None


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a stream that a parser fills, by name and type, and where each lies in a message.

    The time column is none of `fields`: `time` says where it comes from.
    """

    columns: tuple[tuple[str, str], ...]
    fields: tuple[tuple[str, str, FieldAt], ...]
    time_column: str
    time: TimeAt
    split: tuple[SplitBy, ...]
    limits: TimeLimits

    @property
    def time_path(self) -> Path:
        """Where in a message the time lies, if it lies there at all."""
        return self.time.path or (self.time_column,)

    @property
    def paths(self) -> list[Path]:
        """Every path that is looked up in a message."""
        times = [self.time_path] if self.time.source == "path" else []
        return [*(field.path for _, _, field in self.fields), *times]

    def finish(
        self, pieces: Sequence[Piece], errors: Sequence[tuple[int, str]], messages: pa.RecordBatch, planned_at: int
    ) -> Parsed:
        """Return what became of a batch: all pieces in the order of its messages, absurd times unknown, rows split."""
        positions = np.concatenate([np.empty(0, np.int64), *(piece.positions for piece in pieces)])
        order = np.argsort(positions, kind="stable")
        sorted_already = bool((order == np.arange(len(order))).all())
        whole = pa.array(positions if sorted_already else positions[order])
        own = messages if len(whole) == messages.num_rows else messages.take(whole)

        def joined(arrays: list[pa.Array], kind: pa.DataType) -> pa.ChunkedArray:
            found = pa.chunked_array(arrays, kind)
            return found if sorted_already else found.take(pa.array(order))

        arrays = {
            name: joined([piece.columns[number] for piece in pieces], arrow_type(kind))
            for number, (name, kind, _) in enumerate(self.fields)
        }
        if self.time.source == "path":
            times = joined([piece.times for piece in pieces if piece.times is not None], pa.int64())
        else:
            times = own.column("timestamp").cast(pa.int64()) if self.time.source == "kafka" else pa.nulls(len(whole))
        arrays[self.time_column] = self._judged(times.cast(pa.int64()), planned_at)
        rows = pa.table([arrays[name] for name, _ in self.columns], names=[name for name, _ in self.columns])
        splits = split_names(self.split, rows, own) if self.split else None
        return Parsed(rows, whole, splits, sorted(errors))

    def _judged(self, times: pa.Array | pa.ChunkedArray, planned_at: int) -> pa.Array | pa.ChunkedArray:
        low, high = self.limits.bounds(planned_at)
        known = pc.and_(pc.greater_equal(times, low), pc.less_equal(times, high))
        believed = pc.if_else(known, times, pa.scalar(None, pa.int64()))
        kind = dict(self.columns)[self.time_column]
        if kind == "date":
            # Times may lie before 1970: rounded down, not towards it.
            return pc.floor_temporal(believed.cast(pa.timestamp("us")), unit="day").cast(arrow_type(kind))
        return believed.cast(arrow_type(kind))
