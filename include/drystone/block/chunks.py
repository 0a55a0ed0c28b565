"""Time chunks: epoch-aligned, half-open intervals in UTC that every block lies inside of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal, get_args

Granularity = Literal["hour", "day", "month", "year"]
GRANULARITIES: tuple[Granularity, ...] = get_args(Granularity)
"""From fine to coarse. Each one's chunks are unions of whole chunks of the one before."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)
_LAST = (datetime(9999, 1, 1, tzinfo=UTC) - _EPOCH) // timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, order=True)
class Chunk:
    """The interval [start, end) in milliseconds since the epoch, of one granularity."""

    start: int
    end: int
    granularity: Granularity

    def contains(self, min_time: int, max_time: int) -> bool:
        """Tell whether [min_time, max_time) lies inside this chunk."""
        return self.start <= min_time and max_time <= self.end

    @property
    def label(self) -> str:
        """A short name for people: `2013-01-31` for a day, `2013-01` for a month."""
        form = {"hour": "%Y-%m-%dT%H", "day": "%Y-%m-%d", "month": "%Y-%m", "year": "%Y"}[self.granularity]
        return _moment(self.start).strftime(form)


def coarser(one: Granularity, other: Granularity) -> Granularity:
    """Return the coarser of two granularities."""
    return max(one, other, key=GRANULARITIES.index)


def chunk_at(time_ms: int, granularity: Granularity) -> Chunk:
    """Return the chunk of this granularity that holds the moment `time_ms`."""
    moment = _moment(time_ms)
    start = moment.replace(minute=0, second=0, microsecond=0)
    if granularity == "hour":
        return Chunk(_ms(start), _ms(start + timedelta(hours=1)), granularity)
    start = start.replace(hour=0)
    if granularity == "day":
        return Chunk(_ms(start), _ms(start + timedelta(days=1)), granularity)
    start = start.replace(day=1)
    if granularity == "month":
        following = (start + timedelta(days=31)).replace(day=1)
        return Chunk(_ms(start), _ms(following), granularity)
    start = start.replace(month=1)
    return Chunk(_ms(start), _ms(start.replace(year=start.year + 1)), granularity)


def covering_chunk(min_time: int, max_time: int, at_least: Granularity) -> Chunk | None:
    """Return the finest chunk, no finer than `at_least`, that holds all of [min_time, max_time); None if none does.

    Nor is there one outside the years 1 to 9998, where only garbage lies.
    """
    if not _FIRST <= min_time < _LAST or max_time > _LAST:
        return None
    for granularity in GRANULARITIES[GRANULARITIES.index(at_least) :]:
        chunk = chunk_at(min_time, granularity)
        if chunk.contains(min_time, max_time):
            return chunk
    return None


def _moment(time_ms: int) -> datetime:
    # Not fromtimestamp: that one refuses times before 1970 on some platforms.
    return _EPOCH + timedelta(milliseconds=time_ms)


def _ms(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(milliseconds=1)
