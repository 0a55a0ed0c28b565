"""The formats: what is written is read again, every byte of it, and depends on the messages alone."""

from __future__ import annotations

import gzip
import subprocess
import tempfile
from itertools import pairwise
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from messages import PATIENT, SYNC, Message, message_lists, write
from sequence_files import HEADER, read_sequence_file

from drystone.config.export import Compression, Format
from drystone.errors import InputError
from drystone.ingest.formats.registry import extension
from drystone.ingest.formats.sequence_file import sync_marker

CUTS = st.lists(st.integers(1, 29), max_size=4)
LINES = message_lists(st.none() | st.binary(max_size=40).map(lambda value: value.replace(b"\n", b"")))


def written(messages: list[Message], kind: Format, compression: Compression, cuts: list[int]) -> bytes:
    """Return the bytes of a file of these messages."""
    with tempfile.TemporaryDirectory() as folder:
        return write(Path(folder) / "file", messages, kind, compression, cuts)


@PATIENT
@given(message_lists(), CUTS)
def test_a_sequence_file_holds_offsets_and_messages(messages: list[Message], cuts: list[int]) -> None:
    """Keys are 8 bytes, values the messages; whatever is in them, a sync marker, too."""
    records, _ = read_sequence_file(written(messages, "sequence_file", "none", cuts))
    assert records == [(each.offset.to_bytes(8, "big"), each.value or b"") for each in messages]


@PATIENT
@given(message_lists(), CUTS)
def test_msgpack_keys_hold_what_there_is_of_a_message(messages: list[Message], cuts: list[int]) -> None:
    """The map has a message key and a timestamp where the message has them; an empty key is one."""
    records, _ = read_sequence_file(written(messages, "sequence_file_msgpack", "none", cuts))
    found = [(msgspec.msgpack.decode(key), value) for key, value in records]
    wanted = [{1: each.offset, 2: each.key, 3: each.time} for each in messages]
    full = [{name: value for name, value in keys.items() if value is not None} for keys in wanted]
    assert found == [(keys, each.value or b"") for keys, each in zip(full, messages, strict=True)]


def test_msgpack_keys_are_what_the_specification_says(tmp_path: Path) -> None:
    """Byte by byte, by hand: a map of 1 to 3, small and large unsigned integers, `bin 8`."""
    messages = [
        Message(5, None, None, b""),
        Message(300, None, b"", b""),
        Message(1 << 40, 1_400_000_000_123, b"k", b""),
    ]
    records, _ = read_sequence_file(write(tmp_path / "file", messages, "sequence_file_msgpack"))
    assert [key.hex(" ", 1) for key, _ in records] == [
        "81 01 05",
        "82 01 cd 01 2c 02 c4 00",
        "83 01 cf 00 00 01 00 00 00 00 00 02 c4 01 6b 03 cf 00 00 01 45 f6 80 b0 7b",
    ]


@PATIENT
@given(LINES, CUTS, st.sampled_from(["none", "gz", "zst"]))
def test_text_is_the_messages_each_with_a_newline(
    messages: list[Message], cuts: list[int], compression: Compression
) -> None:
    """What is unpacked are the messages' own bytes."""
    raw = written(messages, "text", compression, cuts)
    if compression == "gz":
        raw = gzip.decompress(raw)
    elif compression == "zst":
        raw = pa.input_stream(pa.py_buffer(raw), compression="zstd").read()
    assert raw == b"".join((each.value or b"") + b"\n" for each in messages)


@PATIENT
@given(message_lists(), CUTS, st.sampled_from(["sequence_file", "sequence_file_msgpack"]))
def test_the_same_messages_give_the_same_bytes(messages: list[Message], cuts: list[int], kind: Format) -> None:
    """However they are cut into batches: a run again finds what is there to be its own."""
    assert written(messages, kind, "none", cuts) == written(messages, kind, "none", [])


@pytest.mark.parametrize("compression", ["none", "gz", "zst"])
def test_text_depends_on_the_messages_alone(tmp_path: Path, compression: Compression) -> None:
    """Neither on the time nor on the file's name nor on batches; `gzip -l` shows that no name is in it."""
    messages = [Message(number, None, None, b"line %d" % number) for number in range(5000)]
    one = write(tmp_path / "one", messages, "text", compression)
    other = write(tmp_path / "other", messages, "text", compression, cuts=[7, 4000])
    assert one == other
    if compression == "gz":
        assert one[3] == 0, "no flags: neither a name nor a comment"
        assert one[4:8] == b"\0\0\0\0", "no time"
        unpacked = subprocess.run(["gzip", "-dc"], input=one, capture_output=True, check=True).stdout
        assert unpacked.count(b"\n") == 5000


@pytest.mark.parametrize("compression", ["none", "gz", "zst"])
@pytest.mark.parametrize("value", [b"two\nlines", b"\n", b"at its end\n"])
def test_a_newline_in_a_message_is_refused(tmp_path: Path, value: bytes, compression: Compression) -> None:
    """The error names the first such message, and what to do."""
    messages = [Message(4, None, None, b"good"), Message(9, None, None, value), Message(11, None, None, b"\n")]
    with pytest.raises(InputError, match=r"message at offset 9 has a newline.*sequence_file"):
        write(tmp_path / "file", messages, "text", compression)


def test_sync_markers_come_as_often_as_hadoop_writes_them(tmp_path: Path) -> None:
    """One every 102,400 bytes or soon after, before a record."""
    messages = [Message(number, None, None, b"x" * 10_000) for number in range(100)]
    raw = write(tmp_path / "file", messages, "sequence_file", cuts=[13, 50])
    records, marks = read_sequence_file(raw)
    assert len(records) == 100
    assert raw[len(HEADER) :][:16] == SYNC
    gaps = [high - low for low, high in pairwise(marks)]
    assert gaps
    assert all(102_400 <= gap < 102_400 + 10_100 + 20 for gap in gaps)


def test_a_sync_marker_stands_for_all_its_names() -> None:
    """Two files have two markers."""
    assert sync_marker("a", "b") != sync_marker("ab") != sync_marker("a", "c")
    assert len(sync_marker("a")) == 16


def test_names_end_as_their_format_says() -> None:
    """The end of a name tells how to read it."""
    assert [extension("text", how) for how in ("none", "gz", "zst")] == [".txt", ".txt.gz", ".txt.zst"]
    assert extension("sequence_file", "none") == extension("sequence_file_msgpack", "none") == ".seq"
