"""Names of the parts into which a parser splits the rows of a time chunk: the same for the same rows, fit for keys."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from drystone.config.parser import SplitBy

MISSING = "__null__"
"""Stands for a value that is not there."""
_MOST = 80
_KEPT = 60
_PLAIN = re.compile(r"[A-Za-z0-9.-][A-Za-z0-9._-]*|_(?!_)[A-Za-z0-9._-]*")


def split_names(split: Sequence[SplitBy], rows: pa.Table, messages: pa.RecordBatch) -> pa.Array:
    """Return each row's part: `column=value`, `kafka_hour=2013-01-01T05`, `offset=…`, joined by slashes.

    `messages`: that of each row. Names are made of letters, digits, `. _ - = % ~ /` alone; different values have
    different names.
    """
    parts = [_part(each, rows, messages) for each in split]
    return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")


def safe(text: str) -> str:
    """Return a value's text as part of a key: what may harm there is `%XX`, what is too long ends with its digest."""
    if not _PLAIN.fullmatch(text):
        kept = re.sub(r"[^A-Za-z0-9._-]", lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), text)
        text = "%5F" + kept[1:] if kept.startswith("__") else kept
    if len(text) <= _MOST:
        return text
    return f"{text[:_KEPT]}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _part(split: SplitBy, rows: pa.Table, messages: pa.RecordBatch) -> pa.Array:
    if split.column is not None:
        return _named(split.column, rows.column(split.column), _text)
    if split.offsets is not None:
        offsets = messages.column("offset").to_numpy()
        return _named("offset", pa.array(offsets // split.offsets * split.offsets), "{:020d}".format)
    time = pc.floor_temporal(messages.column("timestamp"), unit="hour" if split.kafka_time == "hour" else "day")
    how = "%Y-%m-%dT%H" if split.kafka_time == "hour" else "%Y-%m-%d"
    return _named(f"kafka_{split.kafka_time}", time, lambda moment: f"{moment:{how}}")


def _named(name: str, values: pa.Array | pa.ChunkedArray, spell: Callable[[Any], str]) -> pa.Array:
    """Return the parts of names that are about values, each different value spelled once."""
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    coded = whole.dictionary_encode(null_encoding="encode")
    found = [MISSING if value is None else safe(spell(value)) for value in coded.dictionary.to_pylist()]
    names = pa.array([f"{safe(name)}={value}" for value in found], pa.string())
    return names.take(coded.indices)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime | date):
        return value.isoformat()
    return str(value)
