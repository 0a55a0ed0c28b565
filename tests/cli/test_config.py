"""`drystone config`."""

from __future__ import annotations

from pathlib import Path

from lakes import CONFIG, STREAM, Lake

REFERENCE = Path(__file__).parents[2] / "docs/reference/config.schema.json"


def test_a_right_configuration(lake: Lake) -> None:
    """A right configuration is confirmed with what each stream lives by, and whether it has data."""
    lake.config_file.write_text(CONFIG + CONFIG.split("streams:")[1].replace("events", "later"))
    found = lake.drystone("config", "check", "--json")
    events, later = found.json["streams"]
    assert (events["stream"], events["exists"], events["sync_delay"]) == (STREAM, True, 900_000)
    assert (later["stream"], later["exists"], later["bucket"]) == ("later", False, lake.bucket.url)
    text = lake.drystone("config", "check")
    assert (text.code, "drystone.yaml is right." in text.out) == (0, True)


def test_every_wrong_value_is_named(lake: Lake) -> None:
    """Every wrong value has a line on stderr, with the file, the path in it and what is allowed; exit code 2."""
    wrong = CONFIG.replace("format: csv", "format: xml").replace("ingest: day", "ingest: week")
    lake.config_file.write_text(wrong)
    found = lake.drystone("config", "check")
    lines = found.err.splitlines()
    assert (found.code, found.out, len(lines)) == (2, "", 2)
    assert all(str(lake.config_file) in line for line in lines)
    assert any("streams.events.ingest.format" in line and "'csv'" in line for line in lines)
    assert any("streams.events.granularity.ingest" in line and "'day'" in line for line in lines)


def test_a_change_that_a_live_stream_cannot_take(lake: Lake) -> None:
    """A right configuration that contradicts the data of a stream is refused, with the way to do it."""
    lake.config_file.write_text(CONFIG.replace("ingest: day", "ingest: hour"))
    found = lake.drystone("config", "check")
    assert found.code == 2
    assert "granularity.ingest is day and cannot become finer (hour)" in found.err
    assert "ingest into a new stream" in found.err


def test_the_schema_is_the_one_in_the_reference(lake: Lake) -> None:
    """The exported JSON Schema is, word for word, the one that the reference shows."""
    found = lake.drystone("config", "schema", config=False)
    assert found.code == 0
    assert found.out == REFERENCE.read_text()
