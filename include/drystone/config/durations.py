"""Durations and sizes as people write them: `15 min`, `36 h`, `128 MiB`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|sec|m|min|h|d)")
_IN_MS = {"ms": 1, "s": 1000, "sec": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)")
_IN_BYTES = {"B": 1}
_IN_BYTES |= {unit: 1000**power for power, unit in enumerate(("KB", "MB", "GB", "TB"), 1)}
_IN_BYTES |= {unit: 1024**power for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), 1)}


def _parse(value: object, pattern: re.Pattern[str], units: dict[str, int], example: str) -> int:
    match = pattern.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        msg = f"must be a number with a unit, such as {example}; known units: {', '.join(units)}"
        raise ValueError(msg)
    return round(float(match[1]) * units[match[2]])


def parse_duration(value: object) -> int:
    """Return a duration in ms; raise ValueError for anything but a number with a unit."""
    return _parse(value, _DURATION, _IN_MS, "15min")


def parse_size(value: object) -> int:
    """Return a size in bytes; raise ValueError for anything but a number with a unit."""
    return _parse(value, _SIZE, _IN_BYTES, "128MiB")


def format_duration(ms: int) -> str:
    """Return a duration as a person would write it, in the biggest unit that divides it: `15min`."""
    return _format(ms, _IN_MS, ("d", "h", "min", "s", "ms")) if ms else "0s"


def format_about(ms: int) -> str:
    """Return a duration as a person reads it, in the biggest unit that fits twice: `36 h`, `90 s`."""
    for unit in ("d", "h", "min", "s"):
        if abs(ms) >= 2 * _IN_MS[unit]:
            return f"{ms // _IN_MS[unit]} {unit}"
    return f"{ms / 1000:.1f} s"


def format_size(size: int) -> str:
    """Return a size as a person would write it, in the biggest unit that divides it: `128MiB`, `200MB`."""
    binary, decimal = ("TiB", "GiB", "MiB", "KiB", "B"), ("TB", "GB", "MB", "KB", "B")
    return min((_format(size, _IN_BYTES, names) for names in (binary, decimal)), key=len) if size else "0B"


def _format(value: int, units: dict[str, int], names: tuple[str, ...]) -> str:
    best = next(name for name in names if value % units[name] == 0)
    return f"{value // units[best]}{best}"


_DurationText = Annotated[str, Field(pattern=f"^{_DURATION.pattern}$")]
_SizeText = Annotated[str, Field(pattern=f"^{_SIZE.pattern}$")]

Duration = Annotated[int, BeforeValidator(parse_duration, json_schema_input_type=_DurationText)]
"""Milliseconds, written with a unit."""
Size = Annotated[int, BeforeValidator(parse_size, json_schema_input_type=_SizeText)]
"""Bytes, written with a unit."""

FORMATS = {f"^{_DURATION.pattern}$": format_duration, f"^{_SIZE.pattern}$": format_size}
"""How the defaults of the texts with these JSON Schema patterns are written."""
