"""Times in messages: ISO-8601 or a number since the epoch, and which of them are absurd."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from drystone.config.parser import TimeFormat
from drystone.ingest.parsers.paths import kind_of

FIRST_US = -62_135_596_800_000_000
"""The year 1 …"""
LAST_US = 253_402_300_799_999_999
"""… and the end of the year 9999, beyond which hardly a program can show a time. Microseconds since the epoch."""
PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}
"""Microseconds in a unit; of nanoseconds a thousand make one."""
_NS_PER_US = 1_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_US = timedelta(microseconds=1)
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class TimeLimits:
    """Which times of rows are believed: from `earliest` (ms since the epoch) to `ahead` ms after the planning.

    What lies outside is absurd, and so unknown. As the time of planning is a plan's, every attempt at it agrees.
    """

    earliest: int = 631_152_000_000
    ahead: int = 86_400_000

    def bounds(self, planned_at: int) -> tuple[int, int]:
        """Return the first and the last believed time, in microseconds, for a plan of this time (ms)."""
        return max(self.earliest * 1_000, FIRST_US), min((planned_at + self.ahead) * 1_000, LAST_US)


USUAL = TimeLimits()
"""From 1990 to a day after the planning."""


class Instant(int):
    """Microseconds since the epoch, from a format that knows times, and may know some beyond every calendar."""


def microseconds(value: object, how: TimeFormat) -> int:
    """Return a time of a message in microseconds since the epoch, which may lie beyond every calendar.

    What a format knows to be a time is taken as one, whatever `how` says; without a zone it is UTC. Parts of a
    microsecond are cut off. Raises ValueError, with the reason, for what is no time.
    """
    if isinstance(value, Instant):
        return int(value)
    if isinstance(value, datetime):
        return _since_epoch(value)
    if isinstance(value, date):
        return _since_epoch(datetime(value.year, value.month, value.day, tzinfo=UTC))
    if how == "iso8601":
        if not isinstance(value, str):
            raise ValueError(f"is {kind_of(value)}, not a time in ISO-8601")
        try:
            return _since_epoch(datetime.fromisoformat(value))
        except ValueError:
            raise ValueError(f"{_short(value)} is no time in ISO-8601") from None
    return _from_number(value, how)


def _since_epoch(moment: datetime) -> int:
    # Not by astimezone, which fails at both ends of the calendar.
    offset = moment.utcoffset() or timedelta()
    return (moment.replace(tzinfo=UTC) - _EPOCH) // _US - offset // _US


def _from_number(value: object, how: TimeFormat) -> int:
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        value = Decimal(value)
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        shown = _short(value) if isinstance(value, str) else f"is {kind_of(value)}, which"
        raise ValueError(f"{shown} is no number of {how} since the epoch")  # noqa: TRY004 - the message's, not the code's
    if not math.isfinite(value):
        raise ValueError(f"{value} is no number of {how} since the epoch")
    if how == "ns":
        return math.floor(value) // _NS_PER_US
    # A float's shortest spelling is what was meant by it.
    exact = Decimal(repr(value)) if isinstance(value, float) else value
    return math.floor(exact * PER_UNIT[how])


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:40]}…")  # noqa: PLR2004 - enough to know it by
