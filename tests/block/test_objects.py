"""The small objects beside blocks: marks, edits and their predicates, files of sources, and all their keys."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from drystone import ulids
from drystone.block import edits, keys, marks, sources
from drystone.block.edits import Erase, Expire, Retire
from drystone.block.guards import Hold, Pin
from drystone.block.journal import Attempt
from drystone.block.meta import SourcesFile
from drystone.block.predicates import All, Any, Comparison, OneOf, columns
from drystone.errors import UnreadableBlockError, UsageError

ULID = "01HF0000000000000000000001"
OTHER = "01HF0000000000000000000003"
KEY = keys.edit("events", ULID)


def test_a_deletion_mark_is_thanos_own() -> None:
    """A mark as Thanos writes it is read, its time in seconds; what is written is read back."""
    raw = json.dumps({"id": ULID, "version": 1, "details": "overlapped", "deletion_time": 1_700_000_000}).encode()
    mark = marks.parse_deletion_mark(raw, ULID)
    assert mark.deletion_time == 1_700_000_000
    assert marks.parse_deletion_mark(mark.to_json(), ULID) == mark


def test_a_mark_may_name_another_block() -> None:
    """A mark that names another block is read all the same: who reads it compares, and reports."""
    raw = json.dumps({"id": OTHER, "version": 1, "deletion_time": 1}).encode()
    assert marks.parse_deletion_mark(raw, ULID).id == OTHER


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"", "cannot be read: Invalid JSON"),
        (b'{"id": "x", "deletion_time"', "cannot be read: Invalid JSON"),
        (b"{}", "cannot be read: Field required"),
        (b'{"id": "x", "deletion_time": "soon"}', "cannot be read: Input should be a valid integer"),
        (b'{"id": "x", "version": 2, "deletion_time": 1}', "has version 2, known is 1"),
    ],
)
def test_an_unusable_mark_names_its_block(raw: bytes, said: str) -> None:
    """A mark that cannot be read, or has another version, is an error that names block, file and reason."""
    with pytest.raises(UnreadableBlockError) as caught:
        marks.parse_deletion_mark(raw, ULID)
    assert f"block {ULID}: deletion-mark.json {said}" in str(caught.value)


def test_a_no_compact_mark_is_thanos_own() -> None:
    """A no-compact mark has Thanos' fields."""
    mark = marks.NoCompactMark(id=ULID, no_compact_time=1, reason="manual", details="failed thrice")
    assert json.loads(mark.to_json()) == {
        "id": ULID,
        "version": 1,
        "no_compact_time": 1,
        "reason": "manual",
        "details": "failed thrice",
    }


EDITS = [
    Erase(id=ULID, reason="asked", author="ann", time=5, predicate=Comparison(column="user", op="=", value="bob")),
    Erase(
        id=ULID,
        reason="asked",
        author="ann",
        time=5,
        predicate=All(
            all=(
                Any(any=(OneOf(column="a", values=(1, 2.5, "x", True)), Comparison(column="b", op="!=", value=False))),
                Comparison(column="t", op=">=", value="2013-01-01T00:00:00Z"),
            )
        ),
    ),
    Retire(id=ULID, reason="twice", author="ann", time=5, sources=(ULID, OTHER)),
    Expire(id=ULID, reason="retention", author="ann", time=5, before=-7),
]


@pytest.mark.parametrize("edit", EDITS, ids=lambda edit: edit.kind)
def test_edits_are_read_back_as_they_were(edit: edits.Edit) -> None:
    """Each kind of edit survives its object, with values in their own types."""
    assert edits.parse(edit.to_json(), KEY) == edit


def test_a_list_of_values_is_written_as_in() -> None:
    """One of several values is written `in`, which is how people write it."""
    assert json.loads(EDITS[1].to_json())["predicate"]["all"][0]["any"][0] == {"column": "a", "in": [1, 2.5, "x", True]}


COMMON = {"version": 1, "id": ULID, "reason": "r", "author": "a", "time": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kind": "replace"}, "does not match any of the expected tags"),
        ({}, "Unable to extract tag"),
        ({"kind": "retire", "sources": []}, "at least 1 item"),
        ({"kind": "retire", "sources": ["x"]}, "no canonical ULID"),
        ({"kind": "expire"}, "Field required"),
        ({"kind": "expire", "before": 1, "version": 2}, "Input should be 1"),
        ({"kind": "expire", "before": 1, "unless": "x"}, "Extra inputs are not permitted"),
        ({"kind": "erase", "predicate": {"column": "a", "op": "~", "value": 1}}, "Input should be"),
        ({"kind": "erase", "predicate": {"all": []}}, "predicate: All: all: Tuple should have at least 1 item"),
        ({"kind": "erase", "predicate": {}}, "predicate: Comparison: column: Field required"),
        ({"kind": "erase", "predicate": {"column": "a", "op": "=", "value": None}}, "Input should be"),
    ],
)
def test_an_edit_that_is_not_wholly_understood_is_an_error(change: dict[str, object], said: str) -> None:
    """An edit takes rows away, so nothing in it may be passed over: the error names it and says that reads stop."""
    with pytest.raises(UnreadableBlockError) as caught:
        edits.parse(json.dumps({**COMMON, **change}).encode(), KEY)
    assert f"edit {KEY} cannot be read" in str(caught.value)
    assert said in str(caught.value)
    assert "Reads stop" in str(caught.value)


def test_an_edit_under_another_name_is_an_error() -> None:
    """Blocks list edits by id, so an edit must lie under its own."""
    with pytest.raises(UnreadableBlockError, match=f"says that it is {ULID}"):
        edits.parse(EDITS[3].to_json(), keys.edit("events", OTHER))


def test_the_columns_of_a_predicate() -> None:
    """A predicate names every column that it looks at, at any depth."""
    predicate = EDITS[1].predicate  # type: ignore[union-attr]
    assert columns(predicate) == {"a", "b", "t"}


def test_a_predicate_is_data_that_nobody_changes() -> None:
    """Predicates can be compared, hashed, and not changed."""
    one = Comparison(column="a", op="=", value=1)
    assert {one, Comparison(column="a", op="=", value=1)} == {one}
    with pytest.raises(ValidationError):
        one.value = 2  # type: ignore[misc]


ULIDS = st.builds(ulids.derive, st.integers(0, (1 << 48) - 1), st.text(max_size=5))


@given(st.frozensets(ULIDS, min_size=1, max_size=30))
def test_a_file_of_sources_is_read_back(given_sources: frozenset[str]) -> None:
    """A source set survives its file, whatever its order, and only under the digest that meta.json names."""
    raw, named = sources.to_json(given_sources)
    assert sources.parse(raw, named, ULID) == given_sources
    assert named.count == len(given_sources)
    with pytest.raises(UnreadableBlockError, match="is not the one"):
        sources.parse(raw + b" ", named, ULID)


@pytest.mark.parametrize(
    ("content", "count", "said"),
    [
        (b'["01HF', 1, "cannot be read"),
        (b"{}", 1, "no list of ULIDs"),
        (b'["x"]', 1, "no list of ULIDs"),
        (b"[1]", 1, "no list of ULIDs"),
        (b"[]", 1, "has 0 sources, not 1"),
        (json.dumps([ULID, ULID]).encode(), 2, "has 1 sources, not 2"),
    ],
)
def test_an_unusable_file_of_sources_names_its_block(content: bytes, count: int, said: str) -> None:
    """A file of sources that is not what meta.json says is an error that names the block."""
    _, named = sources.to_json([ULID])
    digest = SourcesFile(count=count, sha256=sources.digest(content))
    assert named.sha256 != digest.sha256
    with pytest.raises(UnreadableBlockError) as caught:
        sources.parse(content, digest, ULID)
    assert f"block {ULID}" in str(caught.value)
    assert said in str(caught.value)


def test_guards_and_attempts_are_read_back() -> None:
    """Pins, holds and the journal's attempts survive their objects."""
    hold = Hold(owner="ann", reason="repair", created=1, expires=2, blocks=(ULID,))
    assert Hold.model_validate_json(hold.to_json()) == hold
    pin = Pin(owner="read", created=1, expires=2)
    assert Pin.model_validate_json(pin.to_json()) == pin
    attempt = Attempt(run="r", time=1, done={"k": (ULID,)}, failed={"l": "out of memory"})
    assert Attempt.model_validate_json(attempt.to_json()) == attempt


@pytest.mark.parametrize("stream", ["a", "0", "flights_2013", "a-b", "x" * 100])
def test_names_of_streams(stream: str) -> None:
    """A stream's name is a folder, a DAG id and a pool at once: lower-case letters, digits, - and _."""
    assert keys.check_stream(stream) == stream


@pytest.mark.parametrize("stream", ["", "A", "a b", "a/b", ".a", "-a", "_a", "ä", "x" * 101, "a\n"])
def test_names_that_no_stream_can_have(stream: str) -> None:
    """Any other name is refused, with what is allowed."""
    with pytest.raises(UsageError, match="Allowed: lower-case"):
        keys.check_stream(stream)


def test_everything_of_a_stream_lies_in_its_folder() -> None:
    """Every key begins with the stream's name; all but blocks begin with a dot, and sort before them."""
    found = [
        keys.record("s"),
        keys.schema("s", "f"),
        keys.edits("s"),
        keys.edit("s", ULID),
        keys.pins("s"),
        keys.holds("s"),
        keys.leases("s"),
        keys.journal("s"),
        keys.audit("s"),
        keys.plans("s"),
        keys.reports("s"),
        keys.file_plans("s", 0),
    ]
    assert all(key.startswith(keys.blocks("s") + ".") for key in found)
    assert all(key < keys.blocks("s") + keys.FIRST_BLOCK < keys.block("s", ulids.new(0)) for key in found)


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        (f"s/{ULID}/meta.json", (ULID, "meta.json")),
        (f"s/{ULID}/chunks/000001.parquet", (ULID, "chunks/000001.parquet")),
        (f"s/{ULID}/", (ULID, "")),
        (f"s/{ULID}", None),
        (f"s/{ULID.lower()}/meta.json", None),
        (f"s/{ULID}0/meta.json", None),
        ("s/8ZZZZZZZZZZZZZZZZZZZZZZZZZ/meta.json", None),
        ("s/01HF000000000000000000000U/meta.json", None),
        ("s/.edits/x.json", None),
    ],
)
def test_keys_of_blocks(key: str, parsed: tuple[str, str] | None) -> None:
    """Only a folder that is named by a canonical, upper-case ULID is a block's."""
    assert keys.parse_block(key, "s") == parsed


@given(st.integers(0, (1 << 48) - 1), st.lists(st.text(max_size=8), max_size=4))
def test_derived_ids(moment: int, parts: list[str]) -> None:
    """A derived id is a canonical ULID of its time, the same for the same parts, and survives its 16 bytes."""
    found = ulids.derive(moment, *parts)
    assert ulids.is_canonical(found)
    assert ulids.time_of(found) == moment
    assert ulids.derive(moment, *parts) == found
    assert ulids.from_bytes(ulids.to_bytes(found)) == found


def test_the_parts_of_an_id_are_kept_apart() -> None:
    """What is cut elsewhere is another id."""
    assert ulids.derive(0, "ab", "c") != ulids.derive(0, "a", "bc")
    assert ulids.derive(0, "a", "") != ulids.derive(0, "a")


@given(ULIDS, ULIDS)
def test_ids_sort_like_their_bytes(one: str, other: str) -> None:
    """Texts and bytes of ULIDs have one order."""
    assert (one < other) == (ulids.to_bytes(one) < ulids.to_bytes(other))
