"""An upload is whole, with meta.json last, or it leaves nothing that anybody could read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from buckets import WRITES, Call, Spy, failing, objects

from drystone import ulids
from drystone.block import keys
from drystone.block.marks import DELETION_MARK
from drystone.block.meta import MAX_META_BYTES, META_FILE, SOURCES_FILE, Meta, Parent, TimeChunk, parse
from drystone.bucket import Bucket, MemoryBucket
from drystone.engine import upload
from drystone.engine.upload import Origin, new_extension, upload_block
from drystone.errors import BucketError, DrystoneError, ObjectExistsError, UploadTimeoutError
from drystone.rows.keys import sort_table
from drystone.rows.writer import Built, ChunkWriter
from drystone.testing.streams import ManualClock
from drystone.testing.tables import SCHEMA, SOURCES
from drystone.tracker import ListingTracker

NOW = 1_700_000_000_000
STREAM = "events"
DAY = TimeChunk(start=0, end=86_400_000, granularity="day")
WRITTEN = 4
"""Two chunks, the index, meta.json."""


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock(NOW)


@pytest.fixture
def bucket(clock: ManualClock, request: pytest.FixtureRequest) -> MemoryBucket:
    """An empty bucket."""
    return MemoryBucket(request.node.name, clock)


@pytest.fixture
def built(tmp_path: Path) -> Built:
    """A block of two chunks on the local disk."""
    rows = [dict.fromkeys(SCHEMA.names) for _ in range(3_000)]
    for number, row in enumerate(rows):
        row |= {"time": number * 1_000_000, "count": number * 7919 % 3_000, "__source": ulids.to_bytes(SOURCES[0])}
    table = pa.Table.from_pylist(rows, SCHEMA)
    writer = ChunkWriter(tmp_path, SCHEMA, ["count"], "time", row_group_rows=1_500, max_chunk_bytes=10_000)
    writer.write(sort_table(table, ["count"]))
    made = writer.close()
    assert len(made.files) == WRITTEN - 1, [file.rel_path for file in made.files]
    return made


def origin(**changes: object) -> Origin:
    """Return where the block says that it comes from."""
    extension = new_extension(
        stream=STREAM, schema_fingerprint="f", time_chunk=DAY, time_column="time", sort_key=("count",)
    )
    plain = Origin(
        stream=STREAM,
        verb="upload",
        labels={"dataset": "events"},
        extension=extension,
        sources=frozenset({SOURCES[0]}),
        level=1,
        min_time=0,
        max_time=3_000_000,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def send(bucket: Bucket, built: Built, clock: Callable[[], int], **changes: object) -> Meta:
    """Upload the block, within a minute."""
    return upload_block(bucket, built, origin(**changes), 60_000, clock)


def test_meta_json_comes_last(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """Every other file is in the bucket, and was seen there in its size, before meta.json is written."""
    spy = Spy(bucket)
    meta = send(spy, built, clock)
    names = [key.removeprefix(f"{STREAM}/{meta.ulid}/") for key in spy.writes()]
    assert names == ["chunks/000001.parquet", "chunks/000002.parquet", "index", META_FILE]
    before = spy.calls[: [call.key for call in spy.calls].index(keys.block(STREAM, meta.ulid, META_FILE))]
    assert [call.key for call in before if call.verb == "head"] == spy.writes()[:-1]
    assert ulids.time_of(meta.ulid) == NOW


def test_meta_json_has_thanos_shape(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """Keys, types and the list of files are those of Thanos' own meta.json."""
    parent = Parent(ulid=SOURCES[1], min_time=1, max_time=2)
    meta = send(bucket, built, clock, parents=(parent,), level=2)
    found = json.loads(bucket.get(keys.block(STREAM, meta.ulid, META_FILE)))
    assert found.keys() == {"version", "ulid", "minTime", "maxTime", "stats", "compaction", "thanos"}
    assert (found["version"], found["ulid"], found["minTime"], found["maxTime"]) == (1, meta.ulid, 0, 3_000_000)
    assert found["stats"] == {"numSamples": 3_000, "numSeries": 1, "numChunks": 2}
    assert found["compaction"] == {
        "level": 2,
        "sources": [SOURCES[0]],
        "parents": [{"ulid": SOURCES[1], "minTime": 1, "maxTime": 2}],
    }
    thanos = found["thanos"]
    assert thanos["version"] == 1
    assert thanos["labels"] == {"dataset": "events"}
    assert thanos["downsample"] == {"resolution": 0}
    assert thanos["source"] == "drystone.upload"
    assert thanos["segment_files"] == ["000001.parquet", "000002.parquet"]
    assert thanos["files"][-1] == {"rel_path": META_FILE}
    for file in thanos["files"][:-1]:
        raw = bucket.get(keys.block(STREAM, meta.ulid, file["rel_path"]))
        digest = hashlib.sha256(raw).hexdigest()
        assert file == {**file, "size_bytes": len(raw), "hash": {"hashFunc": "SHA256", "value": digest}}
    assert thanos["extensions"]["drystone"]["format_version"] == 1
    assert parse(meta.to_json(), meta.ulid) == meta


@pytest.mark.parametrize(
    ("step", "verbs"),
    [*((step, WRITES) for step in range(WRITTEN)), *((step, frozenset({"head"})) for step in range(WRITTEN - 1))],
)
def test_nothing_stays_of_a_failed_upload(
    bucket: MemoryBucket, built: Built, clock: ManualClock, step: int, verbs: frozenset[str]
) -> None:
    """Whichever write or confirmation fails, the error comes through, and what was written before is removed."""
    with pytest.raises(BucketError, match="the store failed"):
        send(Spy(bucket, failing(step, verbs)), built, clock)
    assert objects(bucket) == {}


def test_an_upload_that_is_interrupted_cleans_up(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """Ctrl-C, or any error that is no error of the store, leaves nothing either."""

    def interrupt(call: Call) -> None:
        if call.verb == "create":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        send(Spy(bucket, interrupt), built, clock)
    assert objects(bucket) == {}


class Losing(Spy):
    """A bucket that loses the answer to each create, which it has done."""

    def create(self, key: str, data: bytes) -> None:
        """See Bucket."""
        super().create(key, data)
        raise BucketError("no answer.")


def test_a_lost_answer_is_looked_up(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """If meta.json was written and only the answer was lost, the block is there, and nothing of it is removed."""
    spy = Losing(bucket)
    meta = send(spy, built, clock)
    assert ListingTracker(bucket, STREAM).observe(NOW).folders[meta.ulid].loadable
    assert spy.of("delete") == []


def test_what_may_count_is_not_removed(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """If nobody can tell whether meta.json was written, the upload fails and leaves the block, which may be read."""

    def fail(call: Call) -> None:
        if call.verb == "get":
            raise BucketError("no answer again.")

    with pytest.raises(BucketError, match="no answer") as caught:
        send(Losing(bucket, fail), built, clock)
    assert "is not known (no answer again.)" in caught.value.__notes__[0]
    assert len(objects(bucket)) == WRITTEN


@pytest.mark.parametrize("swept", [False, True])
def test_a_writer_that_slept_before_meta_json(
    bucket: MemoryBucket,
    built: Built,
    clock: ManualClock,
    swept: bool,  # noqa: FBT001
) -> None:
    """What a sweep took meanwhile for an abandoned upload leaves no meta.json behind; else the block is whole."""

    def sleep(call: Call) -> None:
        if call.verb == "create":
            clock.advance(5 * 3_600_000)
            bucket.delete(list(objects(bucket)) if swept else [])

    if swept:
        with pytest.raises(UploadTimeoutError, match="its files were removed") as caught:
            send(Spy(bucket, sleep), built, clock)
        assert caught.value.retryable
        assert objects(bucket) == {}
    else:
        meta = send(Spy(bucket, sleep), built, clock)
        assert ListingTracker(bucket, STREAM).observe(clock.now).folders[meta.ulid].loadable


def test_a_failed_clean_up_is_told(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """If the removal fails too, the first error is raised, with a note of the second; no meta.json is there."""

    def fail(call: Call) -> None:
        if call.verb == "delete" or call.key.endswith("index"):
            raise BucketError(f"{call.verb} failed.")

    with pytest.raises(BucketError, match="upload failed") as caught:
        send(Spy(bucket, fail), built, clock)
    assert "Removing what was uploaded failed too (delete failed.)" in caught.value.__notes__[0]
    left = objects(bucket)
    assert left
    assert not any(key.endswith(META_FILE) for key in left)


@pytest.mark.parametrize("step", range(WRITTEN - 1))
def test_a_late_upload_stops(bucket: MemoryBucket, built: Built, clock: ManualClock, step: int) -> None:
    """Whichever file takes the upload past its deadline, it stops there, without a meta.json, and cleans up."""
    slow = [0]

    def delay(call: Call) -> None:
        if call.verb == "upload":
            clock.advance(60_001 if slow[0] == step else 0)
            slow[0] += 1

    spy = Spy(bucket, delay)
    with pytest.raises(UploadTimeoutError, match="upload_timeout") as caught:
        send(spy, built, clock)
    assert caught.value.retryable
    assert len(spy.writes()) == step + 1
    assert objects(bucket) == {}


def test_an_upload_in_time_is_not_stopped(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """An upload that takes exactly as long as it may is whole."""
    send(Spy(bucket, lambda call: clock.advance(20_000 if call.verb == "upload" else 0)), built, clock)
    assert len(objects(bucket)) == WRITTEN


def test_an_object_of_another_size_stops_the_upload(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """What the bucket has in another size than was sent is not taken for uploaded."""

    def cut_off(call: Call) -> None:
        if call.verb == "head" and call.key.endswith("index"):
            bucket.put(call.key, b"cut off")

    with pytest.raises(BucketError, match="has 7 bytes in the bucket"):
        send(Spy(bucket, cut_off), built, clock)
    assert objects(bucket) == {}


def test_another_block_is_never_overwritten(
    bucket: MemoryBucket, built: Built, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Should two uploads ever take one ULID, the second fails, and neither changes nor removes what the first wrote."""
    same = ulids.new(NOW)
    monkeypatch.setattr(upload.ulids, "new", lambda _now: same)
    send(bucket, built, clock)
    before = objects(bucket)
    with pytest.raises(ObjectExistsError):
        send(bucket, built, clock)
    assert objects(bucket) == before


def many(count: int) -> frozenset[str]:
    """Return as many source ids."""
    return frozenset(ulids.derive(NOW, str(number)) for number in range(count))


def test_many_sources_move_to_a_file(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """More than 10,000 sources are in a file of the block that a tracker reads back whole, under meta.json's digest."""
    sources = many(10_001)
    meta = send(bucket, built, clock, sources=sources)
    assert len(bucket.get(keys.block(STREAM, meta.ulid, META_FILE))) < 10_000
    raw = bucket.get(keys.block(STREAM, meta.ulid, SOURCES_FILE))
    named = meta.drystone.sources_file if meta.drystone is not None else None
    assert named is not None
    assert (named.count, named.sha256) == (10_001, hashlib.sha256(raw).hexdigest())
    assert len(meta.compaction.sources) == 1, "Thanos takes an empty list for a duplicate of anything"
    folder = ListingTracker(bucket, STREAM).observe(NOW).folders[meta.ulid]
    assert folder.sources == sources
    assert folder.loadable

    bucket.put(keys.block(STREAM, meta.ulid, SOURCES_FILE), raw.replace(b"0", b"1"))
    folder = ListingTracker(bucket, STREAM).observe(NOW).folders[meta.ulid]
    assert "not the one that meta.json names" in folder.meta_error


def test_ten_thousand_sources_fit_into_meta_json(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """Up to 10,000 sources, and as many parents as come with them, stay in a meta.json of less than 1 MiB."""
    sources = many(10_000)
    parents = tuple(Parent(ulid=source, min_time=NOW, max_time=NOW + 1) for source in sorted(sources))
    meta = send(bucket, built, clock, sources=sources, parents=parents[:2_000])
    assert len(meta.compaction.parents) == 2_000
    assert len(bucket.get(keys.block(STREAM, meta.ulid, META_FILE))) < MAX_META_BYTES
    meta = send(bucket, built, clock, sources=sources, parents=parents)
    assert meta.compaction.parents == (), "a part of the parents would be a lie"
    assert set(meta.compaction.sources) == sources


def test_a_meta_json_that_would_be_too_big_is_not_uploaded(
    bucket: MemoryBucket, built: Built, clock: ManualClock
) -> None:
    """Beyond 1 MiB nothing is written at all."""
    extension = origin().extension.model_copy(update={"edits": tuple(sorted(many(40_000)))})
    with pytest.raises(DrystoneError, match=r"would exceed 1 MiB \(40000 edits"):
        send(bucket, built, clock, extension=extension)
    assert objects(bucket) == {}


def test_a_block_is_born_without_marks(bucket: MemoryBucket, built: Built, clock: ManualClock) -> None:
    """An upload writes what meta.json lists, and nothing else."""
    meta = send(bucket, built, clock)
    listed = {keys.block(STREAM, meta.ulid, file.rel_path) for file in meta.thanos.files}
    assert objects(bucket).keys() == listed
    assert keys.block(STREAM, meta.ulid, DELETION_MARK) not in listed
