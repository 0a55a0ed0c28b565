"""Messages of one partition for parsers, and parsers made as a configuration would have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pydantic import TypeAdapter

from drystone.block.schema import Column, Schema
from drystone.config.parser import AnyParser
from drystone.ingest.kafka.messages import MESSAGES
from drystone.ingest.parsers.protocol import Parsed, Parser
from drystone.ingest.parsers.registry import make_parser
from drystone.ingest.parsers.times import USUAL, TimeLimits

PLANNED_AT = 1_700_000_000_000
"""2023-11-14T22:13:20Z."""
COLUMNS = {"time": "timestamp", "name": "string", "count": "int32", "ratio": "float64"}
ADAPTER: TypeAdapter[Any] = TypeAdapter(AnyParser)


def messages(values: Sequence[bytes | None], times: Sequence[int | None] | None = None) -> pa.RecordBatch:
    """Return messages with these values; `times`: Kafka's own, in ms, by default the planning time of all."""
    count = len(values)
    stamps = pa.array(times or [PLANNED_AT] * count, pa.timestamp("ms", "UTC")).cast(MESSAGES.field("timestamp").type)
    columns = [
        pa.array(["flights"] * count),
        pa.array([3] * count, pa.int32()),
        pa.array(range(100, 100 + count), pa.int64()),
        stamps,
        pa.nulls(count, pa.binary()),
        pa.array(values, pa.binary()),
        pa.nulls(count, MESSAGES.field("headers").type),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=MESSAGES)


def parser(
    config: Mapping[str, Any],
    columns: Mapping[str, str] | None = None,
    base: Path = Path(),
    limits: TimeLimits = USUAL,
    time_column: str = "time",
) -> Parser:
    """Return the parser of a section `ingest.parser`, for a stream of these columns."""
    known = Schema(columns=tuple(Column(name=name, type=kind) for name, kind in (columns or COLUMNS).items()))
    return make_parser(ADAPTER.validate_python(config), known, time_column, base, limits)


def parse(config: Mapping[str, Any], *values: bytes | None, **more: Any) -> Parsed:
    """Return what becomes of messages with these values."""
    times = more.pop("times", None)
    return parser(config, **more).parse(messages(values, times), PLANNED_AT)


def rows(parsed: Parsed) -> list[dict[str, Any]]:
    """Return the rows as mappings, without what is null."""
    return [{name: value for name, value in row.items() if value is not None} for row in parsed.rows.to_pylist()]


def only(parsed: Parsed) -> dict[str, Any]:
    """Return the only row."""
    assert parsed.errors == []
    (row,) = rows(parsed)
    return row


def complaint(parsed: Parsed) -> str:
    """Return what is wrong with the only message."""
    assert parsed.rows.num_rows == 0
    ((position, reason),) = parsed.errors
    assert position == 0
    assert "\n" not in reason
    return reason
