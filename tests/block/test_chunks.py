"""Time chunks: epoch-aligned intervals in UTC."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drystone.block.chunks import GRANULARITIES, Chunk, Granularity, chunk_at, coarser, covering_chunk

HOUR = 3_600_000
DAY = 24 * HOUR
FIRST = -62_135_596_800_000
LAST = 253_370_764_800_000
"""0001-01-01 and 9999-01-01 in ms."""
MOMENTS = st.integers(FIRST, LAST - 1)


def ms(text: str) -> int:
    """Return a moment in UTC as ms since the epoch."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@pytest.mark.parametrize(
    ("moment", "granularity", "start", "end", "label"),
    [
        ("2013-01-31T23:59:59.999", "hour", "2013-01-31T23:00", "2013-02-01T00:00", "2013-01-31T23"),
        ("2013-01-31T00:00:00", "day", "2013-01-31", "2013-02-01", "2013-01-31"),
        ("2013-01-31T12:00:00", "month", "2013-01-01", "2013-02-01", "2013-01"),
        ("2013-12-31T12:00:00", "month", "2013-12-01", "2014-01-01", "2013-12"),
        ("2013-12-31T23:59:59", "year", "2013-01-01", "2014-01-01", "2013"),
        ("2012-02-29T12:00:00", "day", "2012-02-29", "2012-03-01", "2012-02-29"),
        ("2012-02-29T12:00:00", "month", "2012-02-01", "2012-03-01", "2012-02"),
        ("2100-02-28T12:00:00", "month", "2100-02-01", "2100-03-01", "2100-02"),
        ("2012-12-31T12:00:00", "year", "2012-01-01", "2013-01-01", "2012"),
        ("1969-12-31T23:30:00", "hour", "1969-12-31T23:00", "1970-01-01", "1969-12-31T23"),
        ("1969-12-31T23:30:00", "day", "1969-12-31", "1970-01-01", "1969-12-31"),
        ("1968-02-29T00:00:00", "month", "1968-02-01", "1968-03-01", "1968-02"),
        ("1900-02-28T00:00:00", "year", "1900-01-01", "1901-01-01", "1900"),
        ("0001-01-01T00:00:00", "year", "0001-01-01", "0002-01-01", "1"),
    ],
)
def test_the_chunk_of_a_moment(moment: str, granularity: Granularity, start: str, end: str, label: str) -> None:
    """A moment lies in the calendar hour, day, month or year in UTC that holds it, before 1970 and in leap years."""
    chunk = chunk_at(ms(moment), granularity)
    assert chunk == Chunk(ms(start), ms(end), granularity)
    assert chunk.label.lstrip("0") == label


def test_summer_time_does_not_matter() -> None:
    """On the days when clocks change somewhere, a day still has 24 hours."""
    for day in ("2013-03-10", "2013-03-31", "2013-10-27", "2013-11-03"):
        chunk = chunk_at(ms(f"{day}T02:30"), "day")
        assert chunk.end - chunk.start == DAY
        hours = {chunk_at(chunk.start + hour * HOUR, "hour") for hour in range(24)}
        assert len(hours) == 24


@given(MOMENTS, st.sampled_from(GRANULARITIES))
def test_chunks_hold_their_moments_and_tile_time(moment: int, granularity: Granularity) -> None:
    """Each moment lies in its chunk, the chunk of whose start is itself, and of whose end is the one that follows."""
    chunk = chunk_at(moment, granularity)
    assert chunk.start <= moment < chunk.end
    assert chunk_at(chunk.start, granularity) == chunk
    assert chunk_at(chunk.end - 1, granularity) == chunk
    if chunk.end < LAST:
        assert chunk_at(chunk.end, granularity).start == chunk.end


@given(MOMENTS)
def test_coarser_chunks_are_unions_of_finer_ones(moment: int) -> None:
    """The chunk of each granularity lies wholly inside the one of the next."""
    chunks = [chunk_at(moment, granularity) for granularity in GRANULARITIES]
    for fine, coarse in pairwise(chunks):
        assert coarse.contains(fine.start, fine.end)


@given(MOMENTS, st.integers(0, 500 * DAY), st.sampled_from(GRANULARITIES))
def test_the_covering_chunk_is_the_finest_that_holds_all(start: int, length: int, at_least: Granularity) -> None:
    """The chunk that covers a range holds all of it, is no finer than asked, and no finer one would do."""
    end = min(start + length, LAST)
    found = covering_chunk(start, end, at_least)
    candidates = [chunk_at(start, granularity) for granularity in GRANULARITIES[GRANULARITIES.index(at_least) :]]
    assert found == next((chunk for chunk in candidates if chunk.contains(start, end)), None)


@pytest.mark.parametrize(
    ("start", "end"), [(FIRST - 1, 0), (0, LAST + 1), (LAST, LAST), (-(1 << 62), 1 << 62), (1 << 62, 1 << 62)]
)
def test_garbage_lies_in_no_chunk(start: int, end: int) -> None:
    """What lies outside the years that dates can have is covered by no chunk, and stops nobody."""
    assert covering_chunk(start, end, "hour") is None


def test_more_than_a_year_lies_in_no_chunk() -> None:
    """There is no chunk above the year."""
    assert covering_chunk(ms("2012-12-31T23:00"), ms("2013-01-01T01:00"), "hour") is None


def test_an_empty_range_lies_where_it_is() -> None:
    """A range without length is held by the chunk of its moment."""
    assert covering_chunk(DAY, DAY, "day") == Chunk(DAY, 2 * DAY, "day")


def test_the_coarser_granularity() -> None:
    """Hour, day, month and year come in this order."""
    assert [coarser(one, other) for one, other in pairwise(GRANULARITIES)] == [
        "day",
        "month",
        "year",
    ]
    assert coarser("month", "hour") == "month"
