"""Two generations of a stream side by side: each goes on, and every reader chooses one."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from lakes import STREAM, Lake, Row, make_lake, rows, values

import drystone
from drystone.block import keys
from drystone.cli.stream_view import show_stream
from drystone.engine.record import apply_config, read_record
from drystone.errors import UsageError
from drystone.reader import view
from drystone.reader.details import stream_details


def side_by_side(folder: Path) -> Lake:
    """Return a stream of which two releases wrote other rows under their own generations, in turns."""
    lake = make_lake(folder)
    old, new = lake.config, lake.config.model_copy(update={"generation": 1})
    for name, config, number in (("a", old, 1), ("b", new, 2), ("c", old, 3), ("d", new, 4)):
        apply_config(lake.bucket, STREAM, config)
        lake.config = config
        lake.ingest(name, rows(number))
    lake.clock.advance(24 * 3_600_000)
    return lake


def of(lake: Lake, *names: str) -> list[Row]:
    """Return the rows that these blocks were made of."""
    return sorted((row for name in names for row in values(lake.given[name])), key=lambda row: row[2])


def scanned(lake: Lake, generation: int | None = None) -> list[Row]:
    """Return what a scan sees."""
    batches = drystone.scan(lake.bucket, STREAM, generation=generation, now=lake.clock)
    return values(pa.Table.from_batches(batches))


def test_readers_choose_a_generation(tmp_path: Path) -> None:
    """Who names none reads the newest; each is read whole, and nothing of the other one with it."""
    lake = side_by_side(tmp_path)
    assert scanned(lake, 0) == of(lake, "a", "c")
    assert scanned(lake, 1) == scanned(lake) == of(lake, "b", "d")
    with pytest.raises(UsageError, match=r"has no generation 2: its newest is 1"):
        scanned(lake, 2)


def test_what_is_told_of_a_stream_tells_generations_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its figures are of all together, and no reader sees so many rows: those that one sees are told, too."""
    lake = side_by_side(tmp_path)
    details = stream_details(view.look(lake.bucket, STREAM, lake.clock))
    assert details.rows_by_generation == {number: len(scanned(lake, number)) for number in (0, 1)}
    assert details.stats.rows == sum(details.rows_by_generation.values())
    show_stream(details)
    apart = ", ".join(f"{rows:,} of generation {number}" for number, rows in details.rows_by_generation.items())
    assert f"{apart}: readers see one" in capsys.readouterr().out


def test_an_older_generation_goes_on(tmp_path: Path) -> None:
    """Its jobs leave the record at the newest: what others read does not change with who wrote last."""
    lake = side_by_side(tmp_path)
    before = lake.bucket.get(keys.record(STREAM))
    old = lake.config.model_copy(update={"generation": 0})
    assert apply_config(lake.bucket, STREAM, old).generation == 0, "what the job itself works with"
    assert lake.bucket.get(keys.record(STREAM)) == before
    assert read_record(lake.bucket, STREAM).generation == 1


@pytest.mark.parametrize(("asked", "blocks"), [(0, "ac"), (1, "bd"), (None, "bd")])
def test_files_and_the_terminal_choose_a_generation(tmp_path: Path, asked: int | None, blocks: str) -> None:
    """`drystone.files`, `drystone files` and `drystone read --count`; by address the newest."""
    lake = side_by_side(tmp_path)
    wanted = of(lake, *blocks)
    listed = drystone.files(lake.bucket, STREAM, generation=asked)
    found = duckdb.sql(f"SELECT count(*) FROM read_parquet({[file.uri for file in listed]})").fetchall()
    assert found == [(len(wanted),)]
    chosen = () if asked is None else ("--generation", str(asked))
    address = ("--bucket", lake.bucket.url)
    said = lake.drystone("read", STREAM, "--count", "--json", *chosen, *address, config=False)
    assert said.json["rows"] == len(wanted)
    said = lake.drystone("files", STREAM, "--json", *chosen, *address, config=False)
    assert {file["block"] for file in said.json["files"]} == {lake.ulid(name) for name in blocks}


def test_the_terminal_reads_what_is_configured(tmp_path: Path) -> None:
    """By a configuration file the default is its generation, though another one is newer."""
    lake = side_by_side(tmp_path)
    assert "generation" not in lake.config_file.read_text()
    assert lake.drystone("read", STREAM, "--count", "--json").json["rows"] == len(of(lake, "a", "c"))
    text = lake.config_file.read_text().replace("    time_column", "    generation: 1\n    time_column")
    lake.config_file.write_text(text)
    lines = lake.drystone("read", STREAM, "--json").out.splitlines()
    assert {json.loads(line)["count"] for line in lines} == {row[2] for row in of(lake, "b", "d")}


def test_a_reader_that_does_not_choose_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: the newest generation is read, whichever was asked for."""
    monkeypatch.setattr(view, "_record_of", lambda bucket, stream, _: read_record(bucket, stream))
    with pytest.raises(AssertionError):
        test_readers_choose_a_generation(tmp_path)
