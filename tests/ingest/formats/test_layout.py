"""The layout: a message's file can be told from the names of the files, and folders from the messages."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import PATIENT, Message, batch_of

from drystone.config.export import Split
from drystone.ingest.formats.layout import PERIODS, Folders, Place, parse

TOPICS = st.from_regex(r"[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,30}", fullmatch=True)
PLACES = st.builds(
    Place,
    topic=TOPICS,
    parts=st.sampled_from([(), ("dt=2013-01-01",), ("dt=unknown", "hr=unknown"), ("offset=1000000",)]),
    generation=st.integers(0, 99),
    partition=st.integers(0, 5000),
    offset=st.integers(0, (1 << 63) - 1),
    extension=st.sampled_from([".txt", ".txt.gz", ".txt.zst", ".seq"]),
)


@PATIENT
@given(PLACES)
def test_a_name_says_all_that_made_it(place: Place) -> None:
    """Back and forth."""
    assert parse("raw/logs", place.key("raw/logs")) == place


@PATIENT
@given(st.lists(st.integers(0, (1 << 63) - 1), min_size=2, max_size=9))
def test_names_sort_as_offsets_do(offsets: list[int]) -> None:
    """Of one partition, so that the file with a message is the last one that begins no later."""
    names = [Place("t", (), 0, 0, offset, ".seq").key("p") for offset in offsets]
    assert [name for _, name in sorted(zip(offsets, names, strict=True))] == sorted(names)


def test_a_name_as_secor_writes_it() -> None:
    """The seed's example."""
    place = Place("flights", ("dt=2013-01-31", "hr=07"), 2, 11, 1234, ".seq")
    assert place.key("logs") == "logs/flights/dt=2013-01-31/hr=07/2_11_00000000000000001234.seq"
    assert parse("logs", "logs/flights/dt=2013-01-31/_SUCCESS") is None


@PATIENT
@given(st.lists(st.none() | st.integers(-10_000_000_000, 4_102_444_800_000), max_size=20), st.sampled_from([*PERIODS]))
def test_a_message_lies_in_the_folder_of_its_time(times: list[int | None], split: Split) -> None:
    """Before 1970, too; without a time it is unknown, and as deep."""
    folders = Folders(split)
    batch = batch_of([Message(number, time, None, None) for number, time in enumerate(times)])
    for time, number in zip(times, folders.numbers(batch).to_pylist(), strict=True):
        parts = folders.parts(number)
        if time is None:
            assert parts == ("dt=unknown", "hr=unknown")[: len(parts)]
        else:
            moment = datetime.fromtimestamp(time / 1000, UTC)
            assert parts == (f"dt={moment:%Y-%m-%d}", f"hr={moment:%H}")[: len(parts)]
        assert len(parts) == (2 if split == "hour" else 1)


@pytest.mark.parametrize(("offset", "part"), [(0, 0), (99, 0), (100, 100), (12_345, 12_300)])
def test_a_message_lies_in_the_folder_of_its_offset(offset: int, part: int) -> None:
    """Folders of a hundred offsets each."""
    folders = Folders("offset", 100)
    (number,) = folders.numbers(batch_of([Message(offset, None, None, None)])).to_pylist()
    assert folders.parts(number) == (f"offset={part}",)


def test_no_split_is_no_folder() -> None:
    """All files of a topic lie beside each other."""
    folders = Folders("none")
    (number,) = folders.numbers(batch_of([Message(5, 7, None, None)])).to_pylist()
    assert folders.parts(number) == ()
