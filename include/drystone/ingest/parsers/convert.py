"""Values of messages as values of columns: what fits is taken exactly, what does not is an error, never a null."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Context, Decimal, Inexact, InvalidOperation
from functools import partial
from uuid import UUID

import numpy as np
import pyarrow as pa

from drystone.config.parser import TimeFormat
from drystone.ingest.parsers.paths import kind_of
from drystone.ingest.parsers.times import FIRST_US, LAST_US, microseconds
from drystone.rows.arrow_schema import arrow_type

Convert = Callable[[object], object]
"""Turns a value that is not None into what `column` takes; raises ValueError with what is wrong with it."""

DAY_US = 86_400_000_000
"""Microseconds of a day."""
_DAY_LENGTH = len("2013-01-31")
_MOST_EXACT = 1 << 53
_INTEGER = re.compile(r"[+-]?[0-9]{1,40}", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_TRUTHS = {"true": True, "false": False, "1": True, "0": False}
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")
_MOST_FLOAT32 = float(np.finfo(np.float32).max)


def converter(kind: str, how: TimeFormat, *, text: bool) -> Convert:
    """Return what converts values for a column of this type (a name of the configuration's).

    `text`: the format knows nothing but text, so that numbers and truth values are read from it.
    """
    if found := _DECIMAL.fullmatch(kind):
        return partial(_decimal, int(found[1]), int(found[2]))
    if kind.startswith("int"):
        limit = 1 << (int(kind[3:]) - 1)
        return partial(_text_integer if text else _integer, kind, -limit, limit - 1)
    others: dict[str, Convert] = {
        "bool": _text_truth if text else _truth,
        "float32": partial(_text_float if text else _float, kind, _MOST_FLOAT32),
        "float64": partial(_text_float if text else _float, kind, math.inf),
        "string": _string,
        "binary": _binary,
        "date": partial(_day, how),
        "timestamp": partial(_moment, how),
    }
    return others[kind]


def column(values: Sequence[object], kind: str) -> pa.Array:
    """Return converted values as the column's array."""
    if kind == "timestamp":
        return pa.array(values, pa.int64()).cast(arrow_type(kind))
    if kind == "date":
        return pa.array(values, pa.int32()).cast(arrow_type(kind))
    return pa.array(values, arrow_type(kind))


def _misfit(value: object, kind: str) -> ValueError:
    shown = repr(value)
    text = f"{shown[:40]}…" if len(shown) > 40 else shown  # noqa: PLR2004 - enough to know it by
    return ValueError(f"{text} is {kind_of(value)} that does not fit {kind}")


def _integer(kind: str, low: int, high: int, value: object) -> int:
    if isinstance(value, float) and value.is_integer() and abs(value) <= _MOST_EXACT:
        value = int(value)
    if isinstance(value, Decimal) and value.is_finite() and abs(value) <= high and value == int(value):
        value = int(value)
    if type(value) is not int or not low <= value <= high:
        raise _misfit(value, kind)
    return value


def _text_integer(kind: str, low: int, high: int, value: object) -> int:
    if isinstance(value, str) and _INTEGER.fullmatch(value):
        return _integer(kind, low, high, int(value))
    raise _misfit(value, kind)


def _float(kind: str, most: float, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise _misfit(value, kind)
    try:
        found = float(value)
    except OverflowError:
        raise _misfit(value, kind) from None
    # Infinity and NaN fit where they came as such; a number too big for the type does not.
    if abs(found) > most and math.isfinite(found):
        raise _misfit(value, kind)
    if math.isinf(found) and not isinstance(value, float):
        raise _misfit(value, kind)
    return found


def _text_float(kind: str, most: float, value: object) -> float:
    if not isinstance(value, str) or not _FLOAT.fullmatch(value):
        raise _misfit(value, kind)
    found = float(value)
    if math.isinf(found) or abs(found) > most:
        raise _misfit(value, kind)
    return found


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise _misfit(value, "bool")


def _text_truth(value: object) -> bool:
    found = _TRUTHS.get(value.lower()) if isinstance(value, str) else None
    if found is None:
        raise _misfit(value, "bool")
    return found


def _string(value: object) -> str:
    if isinstance(value, UUID):
        return str(value)
    if not isinstance(value, str):
        raise _misfit(value, "string")
    if not value.isascii():
        value.encode()  # A lone surrogate is no text; the error is a ValueError.
    return value


def _binary(value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str):
        return value.encode()
    raise _misfit(value, "binary")


def _moment(how: TimeFormat, value: object) -> int:
    found = microseconds(value, how)
    if not FIRST_US <= found <= LAST_US:
        raise ValueError("is a time beyond the years 1 to 9999")
    return found


def _day(how: TimeFormat, value: object) -> int:
    if how == "iso8601":
        a_day = isinstance(value, str) and len(value) == _DAY_LENGTH
        if isinstance(value, datetime) or not (a_day or isinstance(value, date)):
            raise _misfit(value, "date")
    return _moment(how, value) // DAY_US


def _decimal(precision: int, scale: int, value: object) -> Decimal:
    kind = f"decimal({precision}, {scale})"
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise _misfit(value, kind)
    if isinstance(value, str) and not _FLOAT.fullmatch(value):
        raise _misfit(value, kind)
    # A float's shortest spelling is what was meant by it.
    exact = Decimal(repr(value) if isinstance(value, float) else value)
    strict = Context(prec=precision, traps=[Inexact, InvalidOperation])
    try:
        found = exact.quantize(Decimal((0, (1,), -scale)), context=strict)
    except (Inexact, InvalidOperation):
        raise _misfit(value, kind) from None
    if not found.is_finite():
        raise _misfit(value, kind)
    return found
