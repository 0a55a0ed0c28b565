"""Messages as a test writes them down, and as record batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
from hypothesis import settings
from hypothesis import strategies as st

from drystone.config.export import Compression, Format
from drystone.ingest.formats.protocol import COLUMNS
from drystone.ingest.formats.registry import open_writer

SYNC = bytes(range(16))
PATIENT = settings(deadline=None)
"""A busy machine is no failure."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message; `time`: ms since the epoch."""

    offset: int
    time: int | None
    key: bytes | None
    value: bytes | None


def batch_of(messages: Sequence[Message]) -> pa.RecordBatch:
    """Return messages as writers take them."""
    columns = {
        "offset": [each.offset for each in messages],
        "timestamp": [None if each.time is None else each.time * 1000 for each in messages],
        "key": [each.key for each in messages],
        "value": [each.value for each in messages],
    }
    return pa.RecordBatch.from_pydict(columns, schema=COLUMNS)


def write(
    path: Path, messages: Sequence[Message], kind: Format, compression: Compression = "none", cuts: Sequence[int] = ()
) -> bytes:
    """Write messages into a file, in batches that end at `cuts`; return its bytes."""
    writer = open_writer(kind, compression, path, SYNC)
    bounds = sorted({0, *(cut for cut in cuts if cut < len(messages)), len(messages)})
    for low, high in pairwise(bounds):
        writer.write(batch_of(messages[low:high]))
    writer.close()
    return path.read_bytes()


_BYTES = st.binary(max_size=40)
VALUES = st.one_of(st.none(), _BYTES, st.sampled_from([b"", SYNC, b"\xff\xff\xff\xff" + SYNC, b"x" * 70_000]))


@st.composite
def message_lists(draw: st.DrawFn, values: st.SearchStrategy[bytes | None] = VALUES) -> list[Message]:
    """Draw messages whose offsets rise, with gaps."""
    steps = draw(st.lists(st.integers(1, 1 << 40), max_size=30))
    offset, found = draw(st.integers(-1, 5)), []
    for step in steps:
        offset += step
        time = draw(st.none() | st.integers(0, 4_102_444_800_000))
        found.append(Message(offset, time, draw(st.none() | _BYTES), draw(values)))
    return found
