"""Where to cut the rows of a group of blocks into outputs of about equal size, by their index files alone. Pure.

Source: the design, "Compaction: executing" ("the split keys that the `index` files give without reading data").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drystone.rows import keys
from drystone.rows.index import IndexEntry
from drystone.rows.keys import Key, KeyValue


@dataclass(frozen=True, slots=True)
class _Span:
    """Rows whose keys lie between two values of the column at hand; `later`: their bounds in the columns after it."""

    low: KeyValue
    high: KeyValue
    rows: float
    later: tuple[tuple[KeyValue, KeyValue], ...]


def split_keys(entries: Sequence[IndexEntry], outputs: int) -> list[Key]:
    """Return at most `outputs` - 1 ascending keys that cut the rows of all entries into about equal shares.

    Output i takes the rows with keys in [key i-1, key i); the first and the last are open to their side. A key is a
    prefix of the sort key, as long as it must be: one column, more where many rows share its value. Rows of a row group
    are taken as evenly spread between its bounds where those are numbers or times; between strings, cuts are made at
    bounds of row groups. Where the index does not tell rows apart, there are fewer keys.
    """
    spans = [_span(entry, 0) for entry in entries if entry.rows and entry.mins]
    total = sum(span.rows for span in spans)
    found: list[Key] = []
    for number in range(1, outputs):
        key = _cut(spans, total * number / outputs)
        if key is not None and (not found or keys.rank(found[-1]) < keys.rank(key)):
            found.append(key)
    return found


def in_range(entry: IndexEntry, low: Key | None, high: Key | None) -> bool:
    """Tell whether a row group can hold rows with keys in [low, high); None is open."""
    least, most = _bounds(entry)
    if high is not None:
        start, limit = keys.rank(least[: len(high)]), keys.rank(high[: len(least)])
        # Equal, and the bound is the shorter one: some of its rows may still be below.
        if start > limit or (start == limit and len(least) >= len(high)):
            return False
    return low is None or keys.rank(most[: len(low)]) >= keys.rank(low[: len(most)])


def _bounds(entry: IndexEntry) -> tuple[Key, Key]:
    """Return the least and the greatest key as far as column-wise bounds tell: up to the first column that varies."""
    length = 1
    for low, high in zip(entry.mins, entry.maxs, strict=True):
        if keys.rank((low,)) != keys.rank((high,)):
            break
        length += 1
    return entry.mins[:length], entry.maxs[:length]


def _span(entry: IndexEntry, column: int) -> _Span:
    bounds = tuple(zip(entry.mins, entry.maxs, strict=True))
    return _Span(*bounds[column], float(entry.rows), bounds[column + 1 :])


def _cut(spans: Sequence[_Span], wanted: float) -> Key | None:
    """Return the key below which about `wanted` rows lie; None where none cuts anything off."""
    points = sorted({_point(value) for span in spans for value in (span.low, span.high)})
    if not points:
        return None
    low, high = 0, len(points) - 1
    while low < high:
        middle = (low + high) // 2
        if _below(spans, points[middle], inclusive=True) >= wanted:
            high = middle
        else:
            low = middle + 1
    return _cut_near(spans, points, low, wanted)


def _cut_near(spans: Sequence[_Span], points: Sequence[_Ranked], position: int, wanted: float) -> Key | None:
    """Cut at a point, inside of the rows that share its value, or between it and the point before."""
    point = points[position]
    below = _below(spans, point, inclusive=False)
    if below < wanted:
        # The cut falls among rows that have just this value.
        same = [span for span in spans if _point(span.low) == _point(span.high) == point]
        weight = sum(span.rows for span in same)
        inner = [_Span(*span.later[0], span.rows, span.later[1:]) for span in same if span.later]
        rest = _cut(inner, wanted - below) if inner and weight else None
        if rest is not None:
            return (_value(point), *rest)
        return _nearest(spans, points, position, wanted)
    before = points[position - 1] if position else None
    if before is None or not _is_number(before) or not _is_number(point):
        return _nearest(spans, points, position, wanted)
    left = _below(spans, before, inclusive=True)
    share = (wanted - left) / (below - left) if below > left else 1.0
    value = before[1] + (point[1] - before[1]) * share  # type: ignore[operator]
    exact = all(isinstance(p[1], int) for p in (before, point))
    return (round(value) if exact else value,)


def _nearest(spans: Sequence[_Span], points: Sequence[_Ranked], position: int, wanted: float) -> Key | None:
    """Return the nearest of the points that has rows on both sides."""
    total = sum(span.rows for span in spans)
    found = []
    for point in points[max(0, position - 1) : position + 2]:
        below = _below(spans, point, inclusive=False)
        if 0 < below < total:
            found.append((abs(below - wanted), point))
    return (_value(min(found)[1]),) if found else None


def _below(spans: Sequence[_Span], point: _Ranked, *, inclusive: bool) -> float:
    """Estimate how many rows lie below a value, or up to it."""
    return sum(span.rows * _share(span, point, inclusive=inclusive) for span in spans)


def _share(span: _Span, point: _Ranked, *, inclusive: bool) -> float:
    low, high = _point(span.low), _point(span.high)
    if high < point or (inclusive and high == point):
        return 1.0
    if point < low or (point == low and not inclusive):
        return 0.0
    if low == high:
        return 0.0
    if _is_number(low) and _is_number(high) and _is_number(point):
        return float((point[1] - low[1]) / (high[1] - low[1]))  # type: ignore[operator]
    return 0.5 if low < point else 0.0


_Ranked = tuple[int, int | float | str]


def _point(value: KeyValue) -> _Ranked:
    return keys.rank((value,))[0]


def _value(point: _Ranked) -> KeyValue:
    if point[0] == 0:
        return point[1]
    return float("nan") if point[0] == 1 else None


def _is_number(point: _Ranked) -> bool:
    return point[0] == 0 and not isinstance(point[1], str)
