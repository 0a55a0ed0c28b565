"""Messages to rows one message at a time: what every format can, and the measure of whatever is faster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa

from drystone.ingest.parsers.convert import Convert, column, converter
from drystone.ingest.parsers.layout import Layout, Piece
from drystone.ingest.parsers.paths import follow, show
from drystone.ingest.parsers.protocol import Parsed
from drystone.ingest.parsers.times import FIRST_US, LAST_US, microseconds

NO_VALUE = "the message has no value"
_LONGEST = 500


class Decoder(Protocol):
    """Takes one message apart. It can be pickled, and travels to Spark's workers."""

    @property
    def text(self) -> bool:
        """Whether values are text only."""
        ...

    def decode(self, value: bytes) -> object:
        """Return the message as mappings, lists and plain values; raise any Exception for what cannot be decoded."""
        ...


@dataclass(frozen=True)
class OneByOne:
    """A parser of any format that has a decoder. See `Parser`."""

    decoder: Decoder
    layout: Layout
    digest: str

    def parse(self, messages: pa.RecordBatch, planned_at: int) -> Parsed:
        """See `Parser.parse`."""
        positions = np.arange(messages.num_rows, dtype=np.int64)
        piece, errors = self.some(messages.column("value"), positions)
        return self.layout.finish([piece], errors, messages, planned_at)

    def some(self, values: pa.Array, positions: np.ndarray) -> tuple[Piece, list[tuple[int, str]]]:
        """Return the rows of these messages, whose positions in the batch are given, and what is wrong with others."""
        text, fields = self.decoder.text, self.layout.fields
        convert = [(field.path, converter(kind, field.format, text=text)) for _, kind, field in fields]
        good: list[int] = []
        rows: list[list[object]] = []
        times: list[int | None] = []
        errors: list[tuple[int, str]] = []
        for position, value in zip(positions.tolist(), values.to_pylist(), strict=True):
            try:
                if value is None:
                    raise ValueError(NO_VALUE)  # noqa: TRY301 - one way out for whatever a message lacks
                message = self.decoder.decode(value)
                row = [_converted(message, path, how) for path, how in convert]
                time = self._time(message)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with a message stops no other
                errors.append((position, reason(error)))
                continue
            good.append(position)
            rows.append(row)
            times.append(time)
        return self._piece(good, rows, times), errors

    def _time(self, message: object) -> int | None:
        layout = self.layout
        if layout.time.source != "path":
            return None
        value = follow(message, layout.time_path)
        if value is None or value == "":
            return None
        try:
            found = microseconds(value, layout.time.format)
        except ValueError as error:
            raise ValueError(f"{show(layout.time_path)}: {error}") from None
        return found if FIRST_US <= found <= LAST_US else None

    def _piece(self, good: list[int], rows: list[list[object]], times: Sequence[int | None]) -> Piece:
        kinds = [kind for _, kind, _ in self.layout.fields]
        columns = [column([row[number] for row in rows], kind) for number, kind in enumerate(kinds)]
        own = pa.array(times, pa.int64()) if self.layout.time.source == "path" else None
        return Piece(np.array(good, np.int64), columns, own)


def reason(error: Exception) -> str:
    """Return in one line why a message gave no row."""
    text = " ".join(str(error).split()) or "cannot be decoded"
    known = isinstance(error, ValueError) and type(error) is ValueError
    whole = text if known else f"{type(error).__name__}: {text}"
    return whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}…"


def _converted(message: object, path: tuple[str | int, ...], convert: Convert) -> object:
    value = follow(message, path)
    if value is None:
        return None
    try:
        return convert(value)
    except ValueError as error:
        raise ValueError(f"{show(path)}: {error}") from None
