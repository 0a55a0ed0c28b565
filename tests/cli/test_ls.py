"""`drystone ls`."""

from __future__ import annotations

import pytest
from lakes import CONFIG, STREAM, Lake, Row

from drystone import ulids
from drystone.block import keys
from drystone.block.states import State
from drystone.testing.streams import write_record

Busy = tuple[Lake, list[Row]]


def test_streams_of_the_configuration(busy: Busy) -> None:
    """Without a stream, every stream of the configuration is listed in numbers; one without data says so."""
    lake, _ = busy
    second = CONFIG.split("streams:")[1].replace("events", "later")
    lake.config_file.write_text(CONFIG + second)
    found = lake.drystone("ls", "--json")
    events, later = found.json["streams"]
    assert (events["stream"], events["visible"], events["blocks"], events["marked"]) == (STREAM, 4, 10, 1)
    assert (events["problems"], events["damage"], events["error"]) == (0, 0, "")
    assert (later["stream"], later["blocks"], later["error"]) == ("later", 0, "no data yet")
    assert found.code == 0


def test_streams_of_a_bucket(busy: Busy) -> None:
    """With --bucket the streams are those that have a record in it; other folders and objects are passed over."""
    lake, _ = busy
    write_record(lake.bucket, "tides", lake.config)
    for key in ("another/file", "readme.txt", "events0/x", "zoo/.stream/x"):
        lake.bucket.put(key, lake.bucket.get(keys.record(STREAM)))
    found = lake.drystone("ls", "--json", "--bucket", lake.bucket.url, config=False)
    assert [line["stream"] for line in found.json["streams"]] == ["events", "tides"]


def test_a_broken_stream_hides_no_other(busy: Busy) -> None:
    """A stream that cannot be read shows its error in its line and in the exit code, and the others are listed."""
    lake, _ = busy
    lake.bucket.put("broken/.stream.json", b"{")
    lake.bucket.put("copied/.stream.json", lake.bucket.get(keys.record(STREAM)))
    found = lake.drystone("ls", "--json", "--bucket", lake.bucket.url, config=False)
    broken, copied, events = found.json["streams"]
    assert "broken/.stream.json cannot be read" in broken["error"]
    assert "copied/.stream.json is the record of another stream, events" in copied["error"]
    assert events["blocks"] == 10
    assert found.code == 1


def test_blocks_of_a_stream(busy: Busy) -> None:
    """Every block folder is listed by age, with its state, why it is in it, and what its meta.json says in short."""
    lake, _ = busy
    found = lake.drystone("ls", STREAM, "--json").json
    lines = {line["ulid"]: line for line in found["blocks"]}
    assert list(lines) == sorted(lines)
    assert len(lines) == 10
    spare, visible = lines[lake.ulid("b")], lines[lake.ulid("f1")]
    group = lake.blocks["f1"].drystone.group
    assert (spare["state"], spare["why"]) == ("HealthyOverlapped", f"covered by group {group.id}")
    assert (visible["state"], visible["why"]) == ("Healthy", "read")
    assert (visible["level"], visible["chunk"], visible["rows"], visible["sources"]) == (2, "2013-01-01", 60, 3)
    assert (visible["group"], visible["group_index"], visible["group_size"]) == (group.id, 1, 2)
    assert visible["files"] == 1
    assert visible["age"] == found["at"] - ulids.time_of(lake.ulid("f1"))


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["Healthy"], ["e", "f", "f1", "x"]),
        (["fresh"], ["g"]),
        (["FRESH", "deletable"], ["a", "g"]),
        (["Malformed"], []),
    ],
)
def test_blocks_in_a_state(busy: Busy, wanted: list[str], names: list[str]) -> None:
    """--state keeps the blocks of one state, in any spelling; given again, those of either."""
    lake, _ = busy
    options = [word for state in wanted for word in ("--state", state)]
    found = lake.drystone("ls", STREAM, *options, "--json").json
    assert {line["ulid"] for line in found["blocks"]} == {lake.ulid(name) for name in names}


def test_an_unknown_state_is_refused(busy: Busy) -> None:
    """A state that does not exist is refused with exit code 2 and the list of those that do."""
    lake, _ = busy
    found = lake.drystone("ls", STREAM, "--state", "Happy")
    assert found.code == 2
    assert all(state.lower() in found.err for state in (State.FRESH, State.PARTIAL))


def test_states_need_a_stream(busy: Busy) -> None:
    """--state without a stream is refused: streams have no state."""
    found = busy[0].drystone("ls", "--state", "Fresh")
    assert (found.code, found.out) == (2, "")


def test_the_table_is_whole_where_it_is_no_terminal(busy: Busy) -> None:
    """In a pipe or a file every block has one line, and no ULID or reason is cut off."""
    lake, _ = busy
    found = lake.drystone("ls", STREAM)
    lines = found.out.splitlines()
    assert len(lines) == 11
    assert lines[0].split()[:2] == ["ulid", "state"]
    line = next(line for line in lines if line.startswith(lake.ulid("x")))
    assert line.endswith("read, less 1 of 2 sources that are read elsewhere or nowhere")
