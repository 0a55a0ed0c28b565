"""Predicates and edits as Arrow expressions: true for a row that must go, never null."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from drystone import ulids
from drystone.block import predicates
from drystone.block.edits import Expire
from drystone.block.predicates import Comparison, OneOf, Predicate
from drystone.errors import InputError
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.timeline.pending import PendingEdit

_INSTANT = pa.timestamp("us", "UTC")


def instant(ms: int) -> pa.Scalar:
    """Return a moment, given in ms since the epoch, as the type of time columns."""
    return pa.scalar(ms * 1000, _INSTANT)


def between(time_column: str, start: int | None, end: int | None) -> pc.Expression | None:
    """Return the filter for rows with start <= time < end (ms since the epoch); None where neither is given."""
    time = pc.field(time_column).cast(_INSTANT)
    parts = []
    if start is not None:
        parts.append(time >= instant(start))
    if end is not None:
        parts.append(time < instant(end))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else parts[0] & parts[1]


def in_sources(sources: Iterable[str]) -> pc.Expression:
    """Return the filter for rows of these sources (ULIDs)."""
    raw = pa.array([ulids.to_bytes(source) for source in sorted(sources)], pa.binary())
    return pc.field(SOURCE_COLUMN).isin(raw)


def dropped_by(pending: PendingEdit, time_column: str, schema: pa.Schema) -> pc.Expression:
    """Return the expression that is true for the rows that the edit takes away, false for all others."""
    # False for null: without it, its negation would be null, too, and keep nothing.
    hit = pc.coalesce(_taken_by(pending, time_column, schema), pa.scalar(False))  # noqa: FBT003 - a scalar's value
    return hit if pending.sources is None else hit & in_sources(pending.sources)


def hit_by(pending: PendingEdit, time_column: str, schema: pa.Schema) -> pc.Expression:
    """Return the expression that is true for the rows that the edit takes away, and else false or null.

    Unlike `dropped_by` it lets a scan pass over row groups by their statistics.
    """
    hit = _taken_by(pending, time_column, schema)
    return hit if pending.sources is None else hit & in_sources(pending.sources)


def _taken_by(pending: PendingEdit, time_column: str, schema: pa.Schema) -> pc.Expression:
    if isinstance(pending.edit, Expire):
        return pc.field(time_column).cast(_INSTANT) < instant(pending.edit.before)
    return _predicate(pending.edit.predicate, schema)


def selected_by(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    """Return the expression that is true for the rows that the predicate selects, false for all others.

    Raises InputError for a value that cannot be compared with its column.
    """
    return pc.coalesce(_predicate(predicate, schema), pa.scalar(False))  # noqa: FBT003 - a scalar's value


def columns_of(pending: PendingEdit, time_column: str) -> frozenset[str]:
    """Return the columns that `dropped_by` looks at."""
    own = frozenset({time_column}) if isinstance(pending.edit, Expire) else predicates.columns(pending.edit.predicate)
    return own if pending.sources is None else own | {SOURCE_COLUMN}


def typed(predicate: Predicate, schema: pa.Schema) -> Predicate:
    """Return the predicate with numbers and truth values where the columns hold such, as text may have named them.

    Raises InputError for a column that the schema lacks, and for a value that cannot be compared with its column.
    """
    match predicate:
        case predicates.All():
            return predicates.All(all=tuple(typed(part, schema) for part in predicate.all))
        case predicates.Any():
            return predicates.Any(any=tuple(typed(part, schema) for part in predicate.any))
        case _ if predicate.column not in schema.names:
            raise InputError(f"there is no column {predicate.column}.", f"There are {', '.join(schema.names)}.")
        case OneOf():
            values = tuple(_plain(predicate.column, value, schema) for value in predicate.values)
            return OneOf(column=predicate.column, values=values)
        case _:
            value = _plain(predicate.column, predicate.value, schema)
            return Comparison(column=predicate.column, op=predicate.op, value=value)


def _plain(column: str, value: predicates.Value, schema: pa.Schema) -> predicates.Value:
    kind = schema.field(column).type
    found = _value(column, value, schema)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        plain: predicates.Value = found.as_py()
        return plain
    return value


def _predicate(predicate: Predicate, schema: pa.Schema) -> pc.Expression:
    match predicate:
        case predicates.All():
            parts = [_predicate(part, schema) for part in predicate.all]
            return _fold(pc.and_kleene, parts)
        case predicates.Any():
            parts = [_predicate(part, schema) for part in predicate.any]
            return _fold(pc.or_kleene, parts)
        case _ if predicate.column not in schema.names:
            # A column that the block does not have is null in all its rows, and null matches nothing.
            return pc.scalar(False)  # noqa: FBT003 - a scalar's value
        case OneOf():
            values = pa.array([_value(predicate.column, value, schema) for value in predicate.values])
            return pc.field(predicate.column).isin(values)
        case Comparison():
            field, value = pc.field(predicate.column), _value(predicate.column, predicate.value, schema)
            compare = {
                "=": pc.equal, "!=": pc.not_equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater,
                ">=": pc.greater_equal,
            }  # fmt: skip
            return compare[predicate.op](field, value)


def _fold(combine: object, parts: list[pc.Expression]) -> pc.Expression:
    result = parts[0]
    for part in parts[1:]:
        result = combine(result, part)  # type: ignore[operator]
    return result


def _value(column: str, value: object, schema: pa.Schema) -> pa.Scalar:
    kind = schema.field(column).type
    try:
        return pa.scalar(value).cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InputError(f"the value {value!r} cannot be compared with column {column} ({kind}): {error}") from None
