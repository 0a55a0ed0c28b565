"""`drystone fleet`: every stream in one row, and what is wrong with one disturbs no other."""

from __future__ import annotations

import time

import pytest
from lakes import CONFIG, DAY, FIRST_DAY, HOUR, STREAM, Lake, Row, rows

from drystone.block import keys
from drystone.config.load import load
from drystone.reader.view import look
from drystone.testing.streams import write_record
from drystone.verbs.fleet import numbers_of

Busy = tuple[Lake, list[Row]]


def configure(lake: Lake, *others: str, limit: str = "") -> None:
    """Write the configuration with more streams of the same kind, and a limit for the first."""
    one = CONFIG.split("streams:")[1]
    first = CONFIG + (f"    lag_limit: {limit}\n" if limit else "")
    lake.config_file.write_text(first + "".join(one.replace("events", other) for other in others))


def test_a_row_counts_what_is_there(busy: Busy) -> None:
    """Counts, bytes and ages of a row are those that the blocks themselves add up to."""
    lake, _ = busy
    configure(lake)
    found = lake.drystone("fleet", "--json")
    (row,) = found.json["streams"]
    blocks = lake.drystone("ls", STREAM, "--json").json["blocks"]
    numbers = row["numbers"]
    by_state = {state: sum(block["state"] == state for block in blocks) for state in numbers["states"]}
    assert numbers["states"] == by_state
    gone = {"HealthyOverlapped", "Partial", "Marked", "Deleting", "Deletable"}
    assert {block["state"] for block in blocks} & gone
    assert numbers["bytes_to_reclaim"] == sum(block["bytes"] for block in blocks if block["state"] in gone)
    (listed,) = lake.drystone("ls", "--json").json["streams"]
    for ours, theirs in (("blocks_visible", "visible"), ("blocks_total", "blocks"), ("blocks_marked", "marked")):
        assert numbers[ours] == listed[theirs]
    assert (numbers["rows"], numbers["damage"]) == (listed["rows"], 0)
    assert numbers["newest_ingest"] == lake.planned_at or numbers["newest_ingest"] == lake.clock.now // DAY * DAY
    assert FIRST_DAY < numbers["newest_event"] < FIRST_DAY + 400 * DAY
    assert found.code == 0


def test_small_files_are_below_half_of_the_target(lake: Lake) -> None:
    """A chunk file counts as small if it has less than half of the target; one that has half of it does not."""
    lake.ingest("a", rows(1))
    lake.ingest("b", rows(2))
    sizes = sorted(lake.file(name, "chunks/000001.parquet").stat().st_size for name in ("a", "b"))
    view = look(lake.bucket, STREAM, lake.clock.now + HOUR)
    counted = [numbers_of(view, target).small_files for target in (2 * sizes[0], 2 * sizes[0] + 1, 2 * sizes[1] + 1)]
    assert counted == ([0, 1, 2] if sizes[0] < sizes[1] else [0, 2, 2])


def test_one_bad_stream_disturbs_no_other(busy: Busy) -> None:
    """Malformed data is an error in the row of its stream alone; a stream without data is none."""
    lake, _ = busy
    configure(lake, "broken", "later")
    lake.bucket.put(keys.record("broken"), b"{")
    found = lake.drystone("fleet", "--json")
    events, broken, later = found.json["streams"]
    assert events["numbers"]["blocks_total"] == 10
    assert "broken/.stream.json cannot be read" in broken["error"]
    assert (later["numbers"], later["error"]) == (None, "")
    assert found.code == 1
    shown = lake.drystone("fleet").out.splitlines()
    assert [line.split()[0] for line in shown] == ["stream", STREAM, "broken", "later"]
    assert shown[-1].endswith("no data yet")


@pytest.mark.parametrize(("limit", "code"), [("1h", 1), ("300d", 0), ("", 0)])
def test_a_late_stream_is_named(lake: Lake, limit: str, code: int) -> None:
    """A stream whose newest ingest is older than its limit is late, and the command fails; without one it is not."""
    lake.ingest("a", rows(1))
    configure(lake, limit=limit)
    found = lake.drystone("fleet")
    assert found.code == code
    assert ("older than lag_limit allows" in found.out) == bool(code)


def test_the_lag_is_that_of_readable_rows(lake: Lake) -> None:
    """A block that nobody may read yet does not make a stream less late."""
    now = time.time_ns() // 1_000_000
    lake.planned_at = now - 5 * HOUR
    lake.ingest("old", rows(1))
    lake.clock.now = lake.planned_at = now
    lake.ingest("fresh", rows(2))
    config = load(lake.config_file).stream(STREAM)
    write_record(lake.bucket, STREAM, config)
    (row,) = lake.drystone("fleet", "--json").json["streams"]
    assert row["numbers"]["newest_ingest"] == now - 5 * HOUR
    assert row["numbers"]["states"]["Fresh"] == 1
