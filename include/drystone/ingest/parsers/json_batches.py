"""JSON messages in batches by Arrow, wherever its answer is certainly the one that decoding each by itself gives.

Arrow reads a batch as one text. So what may be two answers is found beforehand, or in the result, and left to
`OneByOne`; and a batch that Arrow refuses is halved until what it refuses is alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from drystone.config.parser import FieldAt, Path
from drystone.ingest.parsers.convert import DAY_US
from drystone.ingest.parsers.json import JsonDecoder, names_only
from drystone.ingest.parsers.layout import Layout, Piece
from drystone.ingest.parsers.one_by_one import OneByOne
from drystone.ingest.parsers.protocol import Parsed
from drystone.ingest.parsers.time_arrays import not_dates, time_array
from drystone.rows.arrow_schema import arrow_type

_MOST_ROWS = 32_768
_MOST_BYTES = 64 << 20
_FEW = 32
"""As many messages are decoded one by one sooner than halved again."""
_REFUSALS = 48
"""After so many, the rest of a batch is decoded one by one: halving goes on for a few bad messages, not for many."""
_NESTED = 400
"""Brackets of a message that cannot be nested too deeply for any decoder."""
_INTEGERS = frozenset({"int8", "int16", "int32", "int64"})
_PLAIN_KINDS = _INTEGERS | {"bool", "float32", "float64", "string", "date", "timestamp"}
# What Arrow takes for JSON, or reads otherwise: numbers that are none, halves of surrogate pairs.
_ODD = r"[:,\[\s-](NaN|Inf)|\\u[dD][89a-fA-F]"
_HINTS = (b"NaN", b"Inf", b"\\u")


class _RefusedError(Exception):
    """Arrow does not read these messages, or not as as many objects."""


@dataclass(frozen=True)
class JsonBatches:
    """A parser of JSON. `slow` is the measure: this gives what it gives. See `Parser`."""

    slow: OneByOne

    @property
    def digest(self) -> str:
        """See `Parser.digest`."""
        return self.slow.digest

    def parse(self, messages: pa.RecordBatch, planned_at: int) -> Parsed:
        """See `Parser.parse`."""
        values = messages.column("value")
        work = _Work(self.slow, values)
        certain = _certain(values) if fits(self.slow) else np.zeros(len(values), bool)
        chosen = np.flatnonzero(certain)
        sizes = np.cumsum(pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False)[chosen], dtype=np.int64)
        while len(chosen):
            start = 0 if len(sizes) == len(chosen) else int(sizes[-len(chosen) - 1])
            end = int(np.searchsorted(sizes[-len(chosen) :], start + _MOST_BYTES, "right"))
            count = max(1, min(_MOST_ROWS, end))
            work.fast(chosen[:count])
            chosen = chosen[count:]
        work.one_by_one(np.flatnonzero(~certain))
        return self.slow.layout.finish(work.pieces, work.errors, messages, planned_at)


def fits(slow: OneByOne) -> bool:
    """Tell whether Arrow can read what the columns ask for: plain types under plain names."""
    layout = slow.layout
    kinds = {kind for _, kind, _ in layout.fields}
    paths = set(layout.paths)
    once = len(paths) == len(layout.paths)
    plain = once and bool(paths) and kinds <= _PLAIN_KINDS and names_only(paths)
    return plain and isinstance(slow.decoder, JsonDecoder)


class _Work:
    """What becomes of one batch."""

    def __init__(self, slow: OneByOne, values: pa.Array) -> None:
        self.slow = slow
        self.values = values
        self.pieces: list[Piece] = []
        self.errors: list[tuple[int, str]] = []
        self.refusals = 0

    def one_by_one(self, positions: np.ndarray) -> None:
        if len(positions):
            piece, errors = self.slow.some(_taken(self.values, positions), positions)
            self.pieces.append(piece)
            self.errors += errors

    def fast(self, positions: np.ndarray) -> None:
        """Parse these messages, halved until Arrow takes them, or they are few."""
        if len(positions) <= _FEW or self.refusals >= _REFUSALS:
            self.one_by_one(positions)
            return
        try:
            piece, doubtful = _read(_taken(self.values, positions), positions, self.slow.layout)
        except (pa.ArrowException, UnicodeDecodeError, _RefusedError):
            self.refusals += 1
            middle = len(positions) // 2
            self.fast(positions[:middle])
            self.fast(positions[middle:])
            return
        self.pieces.append(piece)
        self.one_by_one(doubtful)


def _taken(values: pa.Array, positions: np.ndarray) -> pa.Array:
    first, count = int(positions[0]), len(positions)
    in_a_row = int(positions[-1]) - first + 1 == count
    return values.slice(first, count) if in_a_row else values.take(pa.array(positions))


def _certain(values: pa.Array) -> np.ndarray:
    """Tell of each message whether Arrow may read it beside others.

    It begins with a brace, so that it holds an object at least, and ends with one: no object spans two such messages,
    for a closing brace, a line end and an opening brace are no JSON inside of an object. So as many objects as messages
    are one of each. A zero byte would end Arrow's reading.
    """
    closed = pc.or_(pc.ends_with(values, b"}"), pc.or_(pc.ends_with(values, b"}\n"), pc.ends_with(values, b"}\r\n")))
    braced = pc.and_(pc.starts_with(values, b"{"), closed).fill_null(False)  # noqa: FBT003 - what null becomes
    sure: np.ndarray = braced.to_numpy(zero_copy_only=False).copy()
    sure &= ~pc.match_substring(values, b"\0").fill_null(True).to_numpy(zero_copy_only=False)  # noqa: FBT003
    if any(_holds(values, hint) for hint in _HINTS):
        sure &= ~pc.match_substring_regex(values, _ODD).fill_null(True).to_numpy(zero_copy_only=False)  # noqa: FBT003
    long = np.flatnonzero(pc.greater(pc.binary_length(values), _NESTED).fill_null(False).to_numpy(zero_copy_only=False))  # noqa: FBT003
    if len(long):
        some = values.take(pa.array(long))
        brackets = pc.add(pc.count_substring(some, b"["), pc.count_substring(some, b"{"))
        sure[long[brackets.to_numpy(zero_copy_only=False) > _NESTED]] = False
    return sure


def _holds(values: pa.Array, hint: bytes) -> bool:
    return bool(pc.any(pc.match_substring(values, hint)).as_py())


def _read(values: pa.Array, positions: np.ndarray, layout: Layout) -> tuple[Piece, np.ndarray]:
    """Return the rows of these messages, and the positions of those that only decoding them alone can judge."""
    values.cast(pa.string())  # Raises for what is no UTF-8: Arrow's reader would not look.
    whole = pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
    text = pc.binary_join(whole, b"\n")[0].as_buffer()
    table = pj.read_json(
        pa.BufferReader(text),
        pj.ReadOptions(use_threads=False, block_size=max(1, text.size + 1)),
        pj.ParseOptions(explicit_schema=_schema(layout), newlines_in_values=True, unexpected_field_behavior="ignore"),
    )
    if table.num_rows != len(values):
        raise _RefusedError
    doubtful = np.zeros(len(values), bool)
    columns = []
    for _, kind, field in layout.fields:
        found, odd = _converted(_at(table, field.path), kind, field)
        doubtful |= odd
        columns.append(found)
    times = None
    if layout.time.source == "path":
        own = FieldAt(path=layout.time_path, format=layout.time.format)
        times, odd = time_array(_at(table, own.path), own)
        doubtful |= odd
    if not doubtful.any():
        return Piece(positions, columns, times), positions[:0]
    keep = pa.array(~doubtful)
    piece = Piece(positions[~doubtful], [each.filter(keep) for each in columns], times and times.filter(keep))
    return piece, positions[doubtful]


def _schema(layout: Layout) -> pa.Schema:
    kinds = {field.path: _read_as(kind, field.format) for _, kind, field in layout.fields}
    if layout.time.source == "path":
        kinds[layout.time_path] = _read_as("timestamp", layout.time.format)
    tree: dict[str, Any] = {}
    for path, kind in kinds.items():
        at = tree
        for step in path[:-1]:
            at = at.setdefault(str(step), {})
        at[str(path[-1])] = kind
    return pa.schema(list(_type(tree)))


def _type(tree: dict[str, Any] | pa.DataType) -> pa.DataType:
    return pa.struct([(name, _type(below)) for name, below in tree.items()]) if isinstance(tree, dict) else tree


def _read_as(kind: str, how: str) -> pa.DataType:
    """Return the type to read: numbers in full width, so that what does not fit shows; times as they are written."""
    if kind in {"date", "timestamp"}:
        return pa.string() if how == "iso8601" else pa.int64()
    if kind in _INTEGERS:
        return pa.int64()
    return pa.float64() if kind.startswith("float") else arrow_type(kind)


def _at(table: pa.Table, path: Path) -> pa.Array:
    found = table.column(str(path[0]))
    for step in path[1:]:
        found = pc.struct_field(found, str(step))
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _converted(found: pa.Array, kind: str, field: FieldAt) -> tuple[pa.Array, np.ndarray]:
    """Return the column, and which of its values only decoding them alone can judge. Raises for what does not fit."""
    certain = np.zeros(len(found), bool)
    if kind in _INTEGERS:
        return found.cast(arrow_type(kind)), certain
    if kind.startswith("float"):
        # -0 is a whole number to a decoder, and has no sign then; infinite is what was too big.
        plain = found.fill_null(0.0).to_numpy(zero_copy_only=False)
        made = found.cast(arrow_type(kind))
        small = made.fill_null(0.0).to_numpy(zero_copy_only=False)
        return made, ((plain == 0) & np.signbit(plain)) | ~np.isfinite(small)
    if kind == "timestamp":
        times, doubtful = time_array(found, field)
        return times.cast(arrow_type(kind)), doubtful
    if kind == "date":
        times, doubtful = time_array(found, field)
        if field.format == "iso8601":
            doubtful |= not_dates(found)
        days = times.fill_null(0).to_numpy(zero_copy_only=False) // DAY_US
        masked = pa.array(days.astype(np.int32), mask=times.is_null().to_numpy(zero_copy_only=False))
        return masked.cast(arrow_type(kind)), doubtful
    return found, certain
