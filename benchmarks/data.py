"""Many rows made of the flights of 2013: repeated as often as needed, each repetition with its times shifted.

Shifted times stay inside of the row's year, month or day, so that every block has a time chunk. All of it is the same
in every run.
"""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

DEMO = Path(__file__).parents[1] / "demo"
sys.path.append(str(DEMO))

import flights  # noqa: E402 - found by the line above

SORT_KEY = ("carrier", "flight", "event_time")
YEAR = 2013
I64 = npt.NDArray[np.int64]
_SECOND = 1_000_000
_STEP = 61
"""Seconds between a row and its next repetition."""


@cache
def base() -> pa.Table:
    """Return the flights that leave in 2013 (UTC), with their event time."""
    table = flights.with_event_time(flights.load())
    return table.filter(pc.equal(pc.year(table["event_time"]), YEAR)).combine_chunks()


def shuffled(file: int, rows: int) -> pa.Table:
    """Return `rows` rows of file number `file`: taken from everywhere, so that all files interleave. Not sorted."""
    table = base()
    size = table.num_rows
    numbers = np.arange(file * rows, (file + 1) * rows)
    picked = np.empty(rows, np.int64)
    for repetition in np.unique(numbers // size):
        order = np.random.default_rng(int(repetition)).permutation(size)
        mine = numbers // size == repetition
        picked[mine] = order[numbers[mine] % size]
    return _shifted(table.take(pa.array(picked)), numbers // size, "Y")


def disjoint(file: int, files: int, rows: int) -> pa.Table:
    """Return about `rows` rows of file number `file` of `files`, whose sort keys no other file has. Not sorted."""
    table = _sorted()
    starts = _key_starts(files)
    part = table.slice(starts[file], starts[file + 1] - starts[file])
    numbers = np.arange(rows)
    return _shifted(part.take(pa.array(numbers % part.num_rows)), numbers // part.num_rows, "Y")


def of_day(day: int, rows: int) -> pa.Table:
    """Return `rows` rows of the year's day number `day`, counted from 0."""
    table = base()
    start = np.datetime64(f"{YEAR}-01-01") + day
    days = table["event_time"].to_numpy().astype("datetime64[D]")
    part = table.filter(pa.array(days == start)).combine_chunks()
    numbers = np.arange(rows)
    return _shifted(part.take(pa.array(numbers % part.num_rows)), numbers // part.num_rows, "D")


def input_files(folder: Path, rows: int) -> list[Path]:
    """Write the flights as CSV, one file per origin, each row so often that there are about `rows`; return the paths.

    Of a repetition only the minute is another one.
    """
    table = flights.load()
    numbers = np.arange(rows)
    taken = table.take(pa.array(numbers % table.num_rows))
    minutes = (taken["minute"].to_numpy().astype(np.int64) + 7 * (numbers // table.num_rows)) % 60
    place = taken.schema.get_field_index("minute")
    return flights.split_by_origin(taken.set_column(place, "minute", pa.array(minutes, pa.int8())), folder)


@cache
def _sorted() -> pa.Table:
    return base().sort_by([(name, "ascending") for name in SORT_KEY])


@cache
def _key_starts(files: int) -> list[int]:
    """Return where each file's rows begin, so that no two share a flight number of a carrier; the end of all last."""
    table = _sorted()
    keys = pc.binary_join_element_wise(table["carrier"], table["flight"].cast(pa.string()), "/")
    codes = keys.combine_chunks().dictionary_encode().indices.to_numpy()
    changes = np.flatnonzero(np.diff(codes)) + 1
    wanted = np.linspace(0, table.num_rows, files + 1)[1:-1]
    return [0, *(int(changes[np.searchsorted(changes, start)]) for start in wanted), table.num_rows]


def _shifted(rows: pa.Table, repetition: I64, unit: str) -> pa.Table:
    """Move each row's event time on by its repetition's shift, and back to the start of the unit at its end."""
    column = rows["event_time"]
    times = column.to_numpy().astype("datetime64[us]")
    start = times.astype(f"datetime64[{unit}]")
    length = ((start + 1).astype("datetime64[us]") - start.astype("datetime64[us]")).astype(np.int64)
    offset = (times - start.astype("datetime64[us]")).astype(np.int64) + repetition * _STEP * _SECOND
    moved = start.astype("datetime64[us]").astype(np.int64) + offset % length
    place = rows.schema.get_field_index("event_time")
    return rows.set_column(place, rows.schema.field(place), pa.array(moved).cast(column.type))
