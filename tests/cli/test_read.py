"""`drystone read`."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from lakes import DAY, FIRST_DAY, SCHEMA, STREAM, Lake, Row, rows, values

from drystone.rows.checksum import ContentChecksum
from drystone.testing.streams import with_source

Busy = tuple[Lake, list[Row]]


def from_lines(text: str) -> list[Row]:
    """Return the rows that JSON lines hold."""
    found = [json.loads(line) for line in text.splitlines()]
    for row in found:
        row["time"] = round(datetime.fromisoformat(row["time"]).timestamp() * 1_000_000)
    return sorted((tuple(row.values()) for row in found), key=lambda row: row[2])


def drystone(lake: Lake, *arguments: str) -> bytes:
    """Return what a command writes to a pipe."""
    command = [sys.executable, "-c", "from drystone.cli import main; main()", *arguments]
    done = subprocess.run([*command, "--config", lake.config_file], capture_output=True, check=True)
    return done.stdout


def test_json_lines(busy: Busy) -> None:
    """In the middle of a lifecycle every row comes exactly once, a JSON object a line, times in ISO-8601."""
    lake, truth = busy
    found = lake.drystone("read", STREAM, "--format", "jsonl")
    assert from_lines(found.out) == truth
    assert from_lines(lake.drystone("read", STREAM, "--json").out) == truth
    assert (found.code, found.err) == (0, "")


def test_csv(busy: Busy) -> None:
    """CSV has one header line, and reads back as the same rows."""
    lake, truth = busy
    out = lake.folder / "out.csv"
    assert lake.drystone("read", STREAM, "--format", "csv", "-o", out).code == 0
    types = pa.csv.ConvertOptions(column_types={name: SCHEMA.field(name).type for name in SCHEMA.names})
    table = pa.csv.read_csv(out, convert_options=types)
    assert table.column_names == SCHEMA.names
    assert values(table) == truth


def test_parquet(busy: Busy) -> None:
    """Parquet goes to a pipe as well as to a file, with the stream's own types."""
    lake, truth = busy
    piped = pq.read_table(io.BytesIO(drystone(lake, "read", STREAM, "--format", "parquet")))
    assert lake.drystone("read", STREAM, "--format", "parquet", "-o", lake.folder / "out.parquet").code == 0
    written = pq.read_table(lake.folder / "out.parquet")
    assert values(piped) == values(written) == truth
    assert written.schema.equals(SCHEMA)


def test_a_table_for_people(busy: Busy) -> None:
    """Without a format the first 20 rows are shown as a table, numbers as they are; --limit shows more or fewer."""
    lake, _ = busy
    lines = lake.drystone("read", STREAM, "--columns", "city,count").out.splitlines()
    assert lines[0].split() == ["city", "count"]
    assert len(lines) == 21
    assert "1000" in {line.split()[1] for line in lines}
    assert len(lake.drystone("read", STREAM, "--limit", 3).out.splitlines()) == 4


def test_a_time_range(busy: Busy) -> None:
    """Start and end cut the event time, half-open, to the minute or the day, in ISO-8601 (UTC) or ms."""
    lake, truth = busy
    second = [row for row in truth if row[0] >= (FIRST_DAY + DAY) * 1000]
    assert from_lines(lake.drystone("read", STREAM, "--start", "2013-01-02", "--json").out) == second
    assert from_lines(lake.drystone("read", STREAM, "--start", FIRST_DAY + DAY, "--json").out) == second
    low, high = datetime(2013, 1, 1, 2, 10, tzinfo=UTC), datetime(2013, 1, 1, 5, 0, tzinfo=UTC)
    inside = [row for row in truth if low.timestamp() * 1e6 <= row[0] < high.timestamp() * 1e6]
    span = ("--start", "2013-01-01T03:10:00+01:00", "--end", "2013-01-01T05:00")
    assert 0 < len(inside) < len(truth)
    assert from_lines(lake.drystone("read", STREAM, *span, "--json").out) == inside


def test_some_columns(busy: Busy) -> None:
    """Only the columns that are asked for are read, in that order; one that does not exist is refused by name."""
    lake, truth = busy
    lines = lake.drystone("read", STREAM, "--columns", "count, city", "--json").out.splitlines()
    assert list(json.loads(lines[0])) == ["count", "city"]
    assert sorted(json.loads(line)["count"] for line in lines) == [row[2] for row in truth]
    found = lake.drystone("read", STREAM, "--columns", "count,town")
    assert found.code == 2
    assert "has no column town. It has time, city, count, ratio." in found.err


def test_a_column_that_older_blocks_lack(lake: Lake) -> None:
    """A column that only newer blocks have is null for the rows of the older ones, and no row is lost."""
    lake.ingest("old", rows(1))
    newer = rows(2).append_column("wind", pa.array(range(30), pa.int32()))
    lake.upload("new", with_source(newer, lake.source("new")))
    found = [json.loads(line) for line in lake.drystone("read", STREAM, "--columns", "wind", "--json").out.splitlines()]
    assert sorted(row["wind"] for row in found if row["wind"] is not None) == list(range(30))
    assert sum(row["wind"] is None for row in found) == 30


def test_a_limit(busy: Busy) -> None:
    """Exactly as many rows are written as --limit says, whatever the batches; none with 0, but the columns."""
    lake, _ = busy
    assert len(lake.drystone("read", STREAM, "--json", "--limit", 47).out.splitlines()) == 47
    assert lake.drystone("read", STREAM, "--format", "csv", "--limit", 0).out == '"time","city","count","ratio"\n'


def test_rows_and_checksum(busy: Busy) -> None:
    """--count prints the number of rows and the content checksum, computed from the rows."""
    lake, truth = busy
    plain = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in truth])
    wanted = ContentChecksum().update(plain.cast(SCHEMA))
    found = lake.drystone("read", STREAM, "--count", "--json").json
    assert found == {"rows": len(truth), "checksum": wanted.hex}
    assert lake.drystone("read", STREAM, "--count").out == f"{len(truth)} rows, checksum {wanted.hex}\n"


def test_no_rows_have_columns(busy: Busy) -> None:
    """Where there are no rows in range the output still has its columns."""
    lake, _ = busy
    out = lake.folder / "none.parquet"
    assert lake.drystone("read", STREAM, "--start", "2020-01-01", "--format", "parquet", "-o", out).code == 0
    assert pq.read_table(out).schema.equals(SCHEMA)


def test_an_output_file_is_whole_or_not_there(busy: Busy) -> None:
    """A read that fails leaves no output behind, and an older file as it was."""
    lake, _ = busy
    lake.file("e", "chunks/000001.parquet").unlink()
    out = lake.folder / "out.csv"
    out.write_text("older")
    found = lake.drystone("read", STREAM, "--format", "csv", "--output", out)
    assert found.code == 1
    assert out.read_text() == "older"
    assert list(lake.folder.glob("out*")) == [out]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (["--format", "csv", "--output", "no/such/folder/out.csv"], "No such file or directory"),
        (["--output", "rows.txt"], "--output needs a format"),
        (["--json", "--format", "csv"], "two formats"),
        (["--start", "yesterday"], "is no time"),
    ],
)
def test_wrong_use(busy: Busy, options: list[str], reason: str) -> None:
    """What cannot be done is refused with exit code 2 and the reason."""
    found = busy[0].drystone("read", STREAM, *options)
    assert found.code == 2
    assert reason in " ".join(found.err.split())


def test_a_long_read_pins_the_stream(lake: Lake) -> None:
    """With --pin a pin is in the bucket while the read runs, and gone afterwards."""
    lake.ingest("big", pa.concat_tables([rows(number) for number in range(200)]))
    pins = lake.bucket.path(STREAM) / ".pins"
    command = [sys.executable, "-c", "from drystone.cli import main; main()", "read", STREAM, "--json", "--pin"]
    with subprocess.Popen([*command, "--config", lake.config_file], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        # 6,000 lines are more than a pipe holds: it is still reading.
        assert len(list(pins.iterdir())) == 1
        rest = process.stdout.read()
    assert len(from_lines(first + rest)) == 6000
    assert process.returncode == 0
    assert list(lake.bucket.list(f"{STREAM}/.pins/")) == []


def test_without_a_configuration(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --bucket the address alone is enough, a relative folder included; with both it is refused."""
    lake, truth = busy
    monkeypatch.chdir(lake.folder)
    for url in (lake.bucket.url, "file:bucket", f"file://{lake.folder}/bucket"):
        assert from_lines(lake.drystone("read", STREAM, "--json", "--bucket", url, config=False).out) == truth
    found = lake.drystone("read", STREAM, "--bucket", lake.bucket.url)
    assert (found.code, "Give one of them." in found.err) == (2, True)


def test_the_configuration_is_found(busy: Busy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without options the configuration is drystone.yaml of this folder, or what $DRYSTONE_CONFIG names."""
    lake, truth = busy
    monkeypatch.delenv("DRYSTONE_CONFIG", raising=False)
    monkeypatch.chdir(lake.folder)
    assert lake.drystone("read", STREAM, "--count", config=False).out.startswith(f"{len(truth)} rows")
    monkeypatch.chdir(Path("/"))
    monkeypatch.setenv("DRYSTONE_CONFIG", str(lake.config_file))
    assert lake.drystone("read", STREAM, "--count", config=False).out.startswith(f"{len(truth)} rows")
