"""meta.json: Thanos' format, round trips, and every way in which one can be unusable."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given

from drystone import ulids
from drystone.block.meta import Meta, Replacement, parse
from drystone.errors import UnreadableBlockError
from drystone.testing.folders import folder_of, meta_of
from drystone.testing.history import History
from drystone.testing.strategies import histories
from drystone.timeline.blocks import Block, block_of

ULID = "01HF0000000000000000000001"
SOURCE = "01HF0000000000000000000002"
OTHER = "01HF0000000000000000000003"
THANOS = {
    "ulid": ULID,
    "minTime": 1_599_984_000_000,
    "maxTime": 1_599_991_200_000,
    "stats": {"numSamples": 123_456, "numSeries": 78, "numChunks": 910, "numFloatSamples": 123_456},
    "compaction": {
        "level": 2,
        "sources": [SOURCE, OTHER],
        "parents": [{"ulid": SOURCE, "minTime": 1_599_984_000_000, "maxTime": 1_599_991_200_000}],
        "hints": ["from-out-of-order"],
    },
    "version": 1,
    "thanos": {
        "version": 1,
        "labels": {"replica": "a", "cluster": "eu"},
        "downsample": {"resolution": 300_000},
        "source": "compactor",
        "segment_files": ["000001"],
        "files": [
            {"rel_path": "chunks/000001", "size_bytes": 1234},
            {"rel_path": "index", "size_bytes": 567, "hash": {"hashFunc": "SHA256", "value": "00"}},
            {"rel_path": "meta.json"},
        ],
        "index_stats": {"series_max_size": 1, "chunk_max_size": 2},
        "rewrites": [{"sources": [SOURCE]}],
        "upload_time": "2020-09-13T10:00:00Z",
    },
}
"""As Thanos' compactor writes it, fields that Drystone has no use for included."""


def ours() -> dict[str, Any]:
    """Return a meta.json of Drystone's, as JSON has it."""
    block = Block(ULID, 0, 1000, frozenset({SOURCE, OTHER}), 0, "01HF0000000000000000000009", 3, 2, rows=5)
    found: dict[str, Any] = json.loads(meta_of(block, 10).to_json())
    return found


def extension(document: dict[str, Any]) -> dict[str, Any]:
    """Return Drystone's part of a meta.json."""
    found: dict[str, Any] = document["thanos"]["extensions"]["drystone"]
    return found


def test_what_thanos_writes_is_read() -> None:
    """A meta.json of Thanos' own is understood, has no part of Drystone's, and is no error."""
    meta = parse(json.dumps(THANOS).encode(), ULID)
    assert meta.drystone is None
    assert meta.stats.num_samples == 123_456
    assert meta.compaction.sources == (SOURCE, OTHER)
    assert meta.thanos.downsample.resolution == 300_000
    assert [file.rel_path for file in meta.thanos.files] == ["chunks/000001", "index", "meta.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"stats": {}},
        {"thanos": {"labels": None, "downsample": {"resolution": 0}, "source": "sidecar"}},
        {"thanos": {"version": 0, "labels": {}, "source": "sidecar"}},
        {"thanos": {**THANOS["thanos"], "extensions": None}},  # type: ignore[dict-item]
        {"thanos": {**THANOS["thanos"], "extensions": ["something else"]}},  # type: ignore[dict-item]
        {"thanos": {**THANOS["thanos"], "extensions": {"other-tool": {"a": 1}}}},  # type: ignore[dict-item]
    ],
)
def test_what_thanos_may_leave_out(change: dict[str, Any]) -> None:
    """Fields that Go leaves out when they are empty, and other tools' extensions, make no block malformed."""
    assert parse(json.dumps({**THANOS, **change}).encode(), ULID).drystone is None


def test_a_block_that_prometheus_wrote_is_another_tools() -> None:
    """A block without Thanos' section is foreign, not damaged."""
    plain = {name: value for name, value in THANOS.items() if name != "thanos"}
    assert parse(json.dumps(plain).encode(), ULID).drystone is None


def test_round_trip() -> None:
    """What is written is read back as the same, Drystone's part included."""
    raw = json.dumps(ours()).encode()
    meta = parse(raw, ULID)
    assert parse(meta.to_json(), ULID) == meta
    assert meta.drystone is not None
    assert meta.drystone.group is not None
    assert (meta.drystone.group.size, meta.drystone.group.index) == (3, 2)


@given(histories())
def test_a_block_survives_its_meta_json(history: History) -> None:
    """Every fact that visibility depends on is kept by meta.json and a listing."""
    for block in history.blocks:
        folder = folder_of(block)
        assert folder.meta is not None
        again = Meta.model_validate_json(folder.meta.to_json())
        assert again == folder.meta
        found = block_of(folder)
        assert found is not None
        assert (found.touched, found.size) == (max(block.touched, ulids.time_of(block.ulid)), folder.size)
        for field in Block.__dataclass_fields__:
            if field not in {"touched", "size"}:
                assert getattr(found, field) == getattr(block, field), field


def test_fields_of_a_later_minor_version_are_ignored() -> None:
    """A field that this version does not know is no error, in either part."""
    document = ours()
    document["new"] = extension(document)["newer"] = 1
    parse(json.dumps(document).encode(), ULID)


def cut(document: dict[str, Any]) -> bytes:
    """Return what is left when a write stopped half-way."""
    return json.dumps(document).encode()[:-40]


def changed(path: str, value: object) -> Callable[[dict[str, Any]], bytes]:
    """Return a function that sets one value, or takes the key away."""

    def change(document: dict[str, Any]) -> bytes:
        *names, last = path.split(".")
        place = document
        for name in names:
            place = place[name]
        if value is ...:
            del place[last]
        else:
            place[last] = value
        return json.dumps(document).encode()

    return change


EXT = "thanos.extensions.drystone"
BAD: dict[str, tuple[Callable[[dict[str, Any]], bytes], str]] = {
    "cut off": (cut, "cannot be used: Invalid JSON"),
    "empty": (lambda _: b"", "cannot be used: Invalid JSON"),
    "not UTF-8": (lambda _: b"\xff\xfe{}", "cannot be used: Invalid JSON"),
    "a list": (lambda _: b"[1]", "cannot be used: Input should be an object"),
    "nested for ever": (lambda _: b'{"a":' * 100_000, "cannot be used: Invalid JSON"),
    "another ULID": (changed("ulid", OTHER), f"names another block, {OTHER}"),
    "a lower-case ULID": (changed("ulid", ULID.lower()), "ulid: Value error, '01hf"),
    "no ULID": (changed("ulid", ...), "ulid: Field required"),
    "version 2": (changed("version", 2), "has version 2/1, known is 1/1"),
    "Thanos' version 2": (changed("thanos.version", 2), "has version 1/2, known is 1/1"),
    "no sources": (changed("compaction.sources", []), "has an empty source list"),
    "sources left out": (changed("compaction.sources", ...), "has an empty source list"),
    "sources that are none": (changed("compaction.sources", ["x"]), "compaction.sources.0: Value error, 'x' is no"),
    "sources of another type": (changed("compaction.sources", [1]), "compaction.sources.0: Input should be a valid"),
    "ends before it begins": (changed("maxTime", -1), "ends before it begins: 0 > -1"),
    "a time that is none": (changed("minTime", "soon"), "minTime: Input should be a valid integer"),
    "negative rows": (changed("stats.numSamples", -1), "stats.numSamples: Input should be greater"),
    "format 2": (changed(f"{EXT}.format_version", 2), "has Drystone format 2, known is 1. A newer Drystone wrote it"),
    "no format": (changed(f"{EXT}.format_version", ...), "format_version: Field required"),
    "no stream": (changed(f"{EXT}.stream", ...), "stream: Field required"),
    "index beyond the group": (changed(f"{EXT}.group.index", 3), "group index 3 of 3"),
    "a group of none": (changed(f"{EXT}.group.size", 0), "group.size: Input should be greater"),
    "an unknown granularity": (
        changed(f"{EXT}.time_chunk.granularity", "week"),
        "time_chunk.granularity: Input should",
    ),
    "a part of another type": (changed(EXT, [1]), "Input should be a valid dictionary"),
    "no Drystone part": (changed("thanos.extensions", ...), "lacks its Drystone part"),
    "replaced by an older": (
        changed(f"{EXT}.retires", [{"root": OTHER, "by": SOURCE}]),
        f"{SOURCE} cannot replace {OTHER}, which is no older",
    ),
    "replaced by itself": (changed(f"{EXT}.retires", [{"root": OTHER, "by": OTHER}]), "which is no older"),
}


@pytest.mark.parametrize("name", BAD)
def test_an_unusable_meta_json_is_one_unreadable_block(name: str) -> None:
    """Whatever is wrong with a meta.json, the error names the block and says what it is."""
    make, said = BAD[name]
    with pytest.raises(UnreadableBlockError) as caught:
        parse(make(ours()), ULID)
    assert f"block {ULID}: meta.json" in str(caught.value)
    assert said in str(caught.value)


def test_a_newer_format_is_named_even_if_nothing_else_is_understood() -> None:
    """A future version may have other fields and types: the error still says that it is a newer one."""
    newer = {"thanos": {"extensions": {"drystone": {"format_version": 2, "flow": [1]}}}}
    with pytest.raises(UnreadableBlockError, match="Drystone format 2, known is 1"):
        parse(json.dumps(newer).encode(), ULID)


def test_a_replacement_names_two_sources_in_order() -> None:
    """What replaces a source is newer than that source."""
    assert Replacement(root=SOURCE, by=OTHER).by == OTHER
    with pytest.raises(ValueError, match="which is no older"):
        Replacement(root=OTHER, by=SOURCE)
