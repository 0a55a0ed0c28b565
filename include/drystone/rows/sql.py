"""The filters of a read as SQL conditions that keep a row, for Spark and for DuckDB."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Literal

from drystone import ulids
from drystone.block import predicates
from drystone.block.edits import Expire
from drystone.block.predicates import OneOf, Predicate
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.timeline.pending import PendingEdit

Dialect = Literal["spark", "duckdb"]


def between(time_column: str, start: int | None, end: int | None, dialect: Dialect) -> list[str]:
    """Return the conditions for start <= time < end, ms since the epoch; none for what is not given."""
    column = _name(time_column, dialect)
    found = [] if start is None else [f"{column} >= {_instant(start, dialect)}"]
    return found if end is None else [*found, f"{column} < {_instant(end, dialect)}"]


def not_from(sources: Iterable[str], dialect: Dialect) -> str:
    """Return the condition that keeps rows that are not of these sources (ULIDs)."""
    return f"{_name(SOURCE_COLUMN, dialect)} NOT IN ({', '.join(_blob(source, dialect) for source in sorted(sources))})"


def kept_by(pending: PendingEdit, time_column: str, known: Iterable[str], dialect: Dialect) -> str:
    """Return the condition that keeps what the edit does not take away; `known` are the columns that there are."""
    edit = pending.edit
    if isinstance(edit, Expire):
        hit = f"{_name(time_column, dialect)} < {_instant(edit.before, dialect)}"
    else:
        hit = _predicate(edit.predicate, frozenset(known), dialect)
    if pending.sources is not None:
        sources = ", ".join(_blob(source, dialect) for source in sorted(pending.sources))
        hit = f"({hit}) AND {_name(SOURCE_COLUMN, dialect)} IN ({sources})"
    return f"NOT coalesce(({hit}), false)"


def _predicate(predicate: Predicate, known: frozenset[str], dialect: Dialect) -> str:
    match predicate:
        case predicates.All():
            return " AND ".join(f"({_predicate(part, known, dialect)})" for part in predicate.all)
        case predicates.Any():
            return " OR ".join(f"({_predicate(part, known, dialect)})" for part in predicate.any)
        case _ if predicate.column not in known:
            return "false"
        case OneOf():
            values = ", ".join(_literal(value, dialect) for value in predicate.values)
            return f"{_name(predicate.column, dialect)} IN ({values})"
        case _:
            name = _name(predicate.column, dialect)
            compared = f"{name} {predicate.op} {_literal(predicate.value, dialect)}"
            number = isinstance(predicate.value, int | float) and not isinstance(predicate.value, bool)
            # To these engines NaN is greater than every number; to Arrow, which compaction erases by, it is not.
            return f"{compared} AND NOT isnan(CAST({name} AS DOUBLE))" if number and ">" in predicate.op else compared


def _name(column: str, dialect: Dialect) -> str:
    quote = "`" if dialect == "spark" else '"'
    return quote + column.replace(quote, quote * 2) + quote


def _blob(source: str, dialect: Dialect) -> str:
    raw = ulids.to_bytes(source)
    if dialect == "spark":
        return f"X'{raw.hex()}'"
    return "'" + "".join(f"\\x{byte:02X}" for byte in raw) + "'::BLOB"


def _instant(ms: int, dialect: Dialect) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    # The offset is part of the text, so that neither engine's session time zone matters.
    kind = "TIMESTAMP" if dialect == "spark" else "TIMESTAMPTZ"
    return f"CAST('{moment.isoformat()}' AS {kind})"


def _literal(value: object, dialect: Dialect) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return json.dumps(value)
    text = str(value).replace("'", "''")
    return "'" + (text.replace("\\", "\\\\") if dialect == "spark" else text) + "'"
