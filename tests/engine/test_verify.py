"""Verification finds what was planted, names it, and finds nothing else."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from lakes import FIRST_DAY, HOUR, SCHEMA, STREAM, Lake, make_lake, rows, values, without_time

import drystone
from drystone import ulids
from drystone.block import edits, keys
from drystone.bucket import LocalBucket, MemoryBucket
from drystone.engine.audit import Entry, append
from drystone.engine.findings import Finding
from drystone.engine.verify import Verification, _check_owners, verify_stream
from drystone.engine.verify_block import verify_block
from drystone.errors import UsageError
from drystone.reader import look
from drystone.rows.arrow_schema import SOURCE_COLUMN
from drystone.rows.chunk_file import ChunkFile
from drystone.rows.index import IndexEntry, read_index, write_index
from drystone.testing.streams import ManualClock, build_block, source_id, with_source, write_record
from drystone.timeline.timeline import Visible
from drystone.tracker import ListingTracker

CHUNK = "chunks/000001.parquet"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A stream with one block, `a`: 30 rows in four row groups."""
    made = make_lake(tmp_path)
    made.ingest("a", rows(1))
    return made


def verify(lake: Lake, *, deep: bool = True) -> Verification:
    """Verify the stream as of two hours later."""
    return verify_stream(lake.bucket, STREAM, lake.clock.now + 2 * HOUR, deep=deep)


def found(lake: Lake, *, deep: bool = True) -> list[tuple[str, str]]:
    """Return kind and file of each finding; all of them must be about block `a`."""
    findings = verify(lake, deep=deep).findings
    assert {each.block for each in findings} <= {lake.ulid("a")}
    return [(each.kind, each.file) for each in findings]


def rewrite_meta(lake: Lake, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the meta.json of `a` behind its back."""
    key = keys.block(STREAM, lake.ulid("a"), "meta.json")
    meta = json.loads(lake.bucket.get(key))
    change(meta)
    lake.bucket.put(key, json.dumps(meta).encode())


def replace(lake: Lake, file: str, raw: bytes) -> None:
    """Write other bytes in the place of a file of `a`, and let meta.json say that they are right."""
    lake.bucket.put(keys.block(STREAM, lake.ulid("a"), file), raw)

    def amend(meta: dict[str, Any]) -> None:
        (entry,) = (entry for entry in meta["thanos"]["files"] if entry["rel_path"] == file)
        entry.update(size_bytes=len(raw), hash={"hashFunc": "SHA256", "value": hashlib.sha256(raw).hexdigest()})

    rewrite_meta(lake, amend)


def rewrite_index(lake: Lake, change: Callable[[list[IndexEntry]], list[IndexEntry]]) -> None:
    """Change the index of `a`, and let meta.json say that it is right."""
    path = lake.folder / "index"
    write_index(path, change(read_index(lake.file("a", "index"))), SCHEMA, lake.config.sort_key)
    replace(lake, "index", path.read_bytes())


def rewrite_chunk(lake: Lake, change: Callable[[pa.Table], pa.Table]) -> None:
    """Change the rows of `a`, row groups of eight as before, and let meta.json and the index say where they are."""
    table = change(pq.read_table(lake.file("a", CHUNK)))
    chunk = ChunkFile(lake.folder, 1, table.schema, lake.config.sort_key)
    for start in range(0, table.num_rows, 8):
        chunk.write(table.slice(start, 8).combine_chunks().to_batches()[0])
    chunk.close()
    replace(lake, CHUNK, chunk.path.read_bytes())

    def moved(entries: list[IndexEntry]) -> list[IndexEntry]:
        places = zip(entries, chunk.places, strict=True)
        return [dataclasses.replace(entry, offset=place[1], length=place[2]) for entry, place in places]

    rewrite_index(lake, moved)


def with_column(table: pa.Table, name: str, column: pa.ChunkedArray | pa.Array) -> pa.Table:
    """Return the table with another column in the place of the one of this name."""
    return table.set_column(table.column_names.index(name), table.schema.field(name).with_type(column.type), column)


def first(change: dict[str, Any]) -> Callable[[list[IndexEntry]], list[IndexEntry]]:
    """Return a change of the index's first entry."""
    return lambda entries: [dataclasses.replace(entries[0], **change), *entries[1:]]


def test_nothing_is_wrong(lake: Lake) -> None:
    """A whole stream has no findings, and the verification says what it looked at."""
    lake.ingest("b", rows(2, day=1))
    seen = verify(lake)
    assert seen.findings == ()
    assert (seen.blocks, seen.files, seen.rows, seen.sources, seen.deep) == (2, 6, 60, 2, True)
    assert seen.bytes == sum(item.size for name in "ab" for item in lake.bucket.list(f"{STREAM}/{lake.ulid(name)}/"))


def test_a_bucket_that_is_no_folder(lake: Lake) -> None:
    """Buckets that are read by ranges are verified like folders, damage included."""
    clock = ManualClock(FIRST_DAY)
    bucket = MemoryBucket("verified", clock)
    write_record(bucket, STREAM, lake.config)
    meta = build_block(bucket, STREAM, lake.config, with_source(rows(1), source_id(0, "a")), clock, row_group_rows=8)
    assert verify_stream(bucket, STREAM, FIRST_DAY + HOUR, deep=True).findings == ()
    key = keys.block(STREAM, meta.ulid, CHUNK)
    bucket.put(key, bucket.get(key)[:-1] + b"?")
    (finding,) = verify_stream(bucket, STREAM, FIRST_DAY + HOUR, deep=True).findings
    assert (finding.kind, finding.block, finding.file) == ("hash", meta.ulid, CHUNK)


def test_another_size(lake: Lake) -> None:
    """A file of another size than meta.json says is named without being read, and the rows are missed."""
    path = lake.file("a", CHUNK)
    path.write_bytes(path.read_bytes()[:-1])
    assert found(lake, deep=False) == [("missing-rows", ""), ("missing-file", CHUNK)]
    assert found(lake) == [("missing-rows", ""), ("missing-file", CHUNK)]


def test_another_hash(lake: Lake) -> None:
    """A file of the right size and other bytes is found by its hash, and only by reading it."""
    path = lake.file("a", "index")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    assert ("hash", "index") in found(lake)
    assert ("hash", "index") not in found(lake, deep=False)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (first({"rows": 9}), "the index counts 31 rows, and meta.json 30."),
        (lambda entries: entries[:-1], "the index lists 3 row groups, and meta.json counts 4."),
        (first({"file": "chunks/000002.parquet"}), "names chunks/000002.parquet, which meta.json does not list."),
        (first({"ordinal": 3}), "the index lists the row groups of chunks/000001.parquet as [3, 1, 2, 3]."),
        (first({"offset": 1 << 30}), "behind the end of the file."),
        (first({"min_time": 0}), "row group 0 of chunks/000001.parquet leaves the block's time range."),
    ],
)
def test_an_index_that_contradicts_its_meta(
    lake: Lake, change: Callable[[list[IndexEntry]], list[IndexEntry]], says: str
) -> None:
    """What the index and meta.json say of each other is compared without opening a chunk."""
    rewrite_index(lake, change)
    texts = [each.what for each in verify(lake, deep=False).findings if (each.kind, each.file) == ("index", "index")]
    assert any(says in text for text in texts), texts


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (first({"min_time": FIRST_DAY + 30 * HOUR // 6}), "its time range"),
        (first({"offset": 5}), "its place in the file"),
        (first({"mins": ("Aalborg", 0)}), "the least value of a sort column"),
        (first({"maxs": ("Zagreb", 0)}), "the greatest value of a sort column"),
        (
            lambda entries: [
                dataclasses.replace(entries[0], rows=7),
                dataclasses.replace(entries[1], rows=9),
                *entries[2:],
            ],
            "its number of rows",
        ),
    ],
)
def test_an_index_that_contradicts_the_rows(
    lake: Lake, change: Callable[[list[IndexEntry]], list[IndexEntry]], says: str
) -> None:
    """What the index says of a row group is compared with its rows, when they are read."""
    rewrite_index(lake, change)
    assert verify(lake, deep=False).findings == ()
    findings = verify(lake).findings
    assert {(each.kind, each.file) for each in findings} == {("index", CHUNK)}
    assert f"row group 0 of {CHUNK}: the index is wrong about" in findings[0].what
    assert says in findings[0].what


def test_rows_without_a_time_are_counted(lake: Lake) -> None:
    """A block that says otherwise of them is found; one that says it right is in order, also by its index."""
    lake.ingest("unknown", without_time(rows(2)))
    assert verify(lake).findings == ()
    rewrite_meta(lake, lambda meta: meta["thanos"]["extensions"]["drystone"].update(unknown_times=1))
    (finding,) = verify(lake).findings
    assert (finding.kind, finding.block) == ("meta", lake.ulid("a"))
    assert finding.what == "0 of its rows have no time, and meta.json says 1."


def test_an_index_that_cannot_be_read(lake: Lake) -> None:
    """An index that is no Parquet is found by name; reads of a time range, which it only speeds up, stay exact."""
    replace(lake, "index", b"not an index")
    assert found(lake, deep=False) == [("index", "index")]
    assert found(lake) == [("index", "index")]
    start, end = FIRST_DAY + 3 * HOUR, FIRST_DAY + 6 * HOUR
    inside = [row for row in values(rows(1)) if start * 1000 <= row[0] < end * 1000]
    table = pa.Table.from_batches(drystone.scan(lake.bucket, STREAM, start, end))
    assert 0 < len(inside) < 30
    assert values(table) == inside


@pytest.mark.parametrize(
    ("order", "says"),
    [
        ([1, 0, *range(2, 30)], "row group 0 of chunks/000001.parquet: row 1 of a row group is out of the order"),
        ([*range(8, 16), *range(8), *range(16, 30)], "row group 1 of chunks/000001.parquet begins before"),
    ],
)
def test_rows_out_of_order(lake: Lake, order: list[int], says: str) -> None:
    """Rows that are not in the order of the sort key are found, within a row group and from one to the next."""
    rewrite_chunk(lake, lambda table: table)
    assert verify(lake).findings == ()
    rewrite_chunk(lake, lambda table: table.take(order))
    assert [each.file for each in verify(lake).findings if each.kind == "order" and says in each.what] == [CHUNK]


def test_a_changed_value(lake: Lake) -> None:
    """One value that is not what was written is found by the content checksum, and by nothing else."""
    rewrite_chunk(
        lake, lambda table: with_column(table, "ratio", pc.if_else(pc.equal(table["count"], 1001), 7.0, table["ratio"]))
    )
    assert verify(lake, deep=False).findings == ()
    assert found(lake) == [("checksum", "")]


def test_swapped_values(lake: Lake) -> None:
    """Two values of a column that changed places are found."""

    def swap(table: pa.Table) -> pa.Table:
        column = table["count"].to_pylist()
        column[0], column[1] = column[1], column[0]
        return with_column(table, "count", pa.array(column, pa.int32()))

    rewrite_chunk(lake, swap)
    assert found(lake) == [("checksum", "")]


def test_a_lost_row(lake: Lake) -> None:
    """A row that is missing is found, even where index and bytes agree with each other."""
    rewrite_chunk(lake, lambda table: table.slice(0, 29))
    rewrite_index(lake, lambda entries: [*entries[:-1], dataclasses.replace(entries[-1], rows=5)])
    assert found(lake, deep=False) == [("index", "index")]
    rewrite_meta(lake, lambda meta: meta["stats"].update(numSamples=29))
    assert found(lake, deep=False) == []
    assert ("index", CHUNK) in found(lake) or ("checksum", "") in found(lake)


def test_rows_of_somebody_else(lake: Lake) -> None:
    """Rows that name a source which meta.json does not list are found, with the source's id."""
    stranger = ulids.derive(0, "stranger")

    def change(table: pa.Table) -> pa.Table:
        column = [*table[SOURCE_COLUMN].to_pylist()[:-1], ulids.to_bytes(stranger)]
        return with_column(table, SOURCE_COLUMN, pa.array(column, pa.binary()))

    rewrite_chunk(lake, change)
    (finding,) = verify(lake).findings
    assert (finding.kind, stranger in finding.what) == ("sources", True)


def test_other_columns(lake: Lake) -> None:
    """A chunk whose columns are not those of the block's schema is found, with their names."""
    rewrite_chunk(lake, lambda table: with_column(table, "count", table["count"].cast(pa.int64())))
    (finding,) = verify(lake).findings
    assert (finding.kind, finding.file) == ("schema", CHUNK)
    assert "count" in finding.what


def test_a_schema_that_is_gone(lake: Lake) -> None:
    """A schema object that is missing is found with its key."""
    (schema,) = lake.bucket.list(f"{STREAM}/.schemas/")
    lake.bucket.delete([schema.key])
    assert found(lake) == [("schema", schema.key)]


def test_a_chunk_that_is_no_parquet(lake: Lake) -> None:
    """A chunk whose bytes are what meta.json says, and no Parquet, is found."""
    replace(lake, CHUNK, b"not Parquet at all")
    assert ("content", CHUNK) in found(lake)


def test_a_rewrite_that_does_not_add_up(lake: Lake) -> None:
    """A compaction whose rows in are not its rows out and what it dropped is found."""
    rewritten = {"rows_in": 40, "rows_erased": 5, "rows_retired": 3, "rows_deduplicated": 1}
    rewrite_meta(lake, lambda meta: meta["thanos"]["extensions"]["drystone"].update(rewritten=rewritten))
    (finding,) = verify(lake, deep=False).findings
    assert finding.what == "its rewrite took in 40 rows, and accounts for 39."


def test_times_outside_the_chunk(lake: Lake) -> None:
    """A block whose time range leaves its time chunk is found."""
    rewrite_meta(lake, lambda meta: meta.update(maxTime=meta["maxTime"] + 24 * HOUR))
    assert found(lake, deep=False) == [("meta", "meta.json")]


def log(lake: Lake, when: int) -> None:
    """Log the upload of `a`, as the job that uploads does."""
    entry = Entry("upload", lake.ulid("a"), f"source {lake.source('a')}", "run", when)
    append(lake.bucket, STREAM, [entry], when)


def remove(lake: Lake, *names: str) -> None:
    """Remove files of `a`, by default all of them, behind everybody's back."""
    prefix = keys.block(STREAM, lake.ulid("a"))
    lake.bucket.delete([prefix + name for name in names] or [item.key for item in lake.bucket.list(prefix)])


def test_a_block_that_is_gone_altogether(lake: Lake) -> None:
    """A source that was ingested, and that no block holds and no edit took away, is missed by its id."""
    log(lake, lake.clock.now)
    assert verify(lake).findings == ()
    remove(lake)
    (finding,) = verify(lake, deep=False).findings
    assert (finding.severity, finding.kind, finding.block) == ("damage", "missing-rows", lake.ulid("a"))
    assert lake.source("a") in finding.what
    log(lake, lake.clock.now)
    assert len(verify(lake).findings) == 1


def test_a_block_that_was_superseded_is_not_missed(lake: Lake) -> None:
    """A block that went after its rows were merged, or retired, or expired, is not missed."""
    log(lake, lake.clock.now)
    lake.ingest("b", rows(2))
    lake.merge("ab", "a", "b")
    remove(lake)
    assert verify(lake).findings == ()
    lake.bucket.delete([item.key for name in ("b", "ab") for item in lake.bucket.list(f"{STREAM}/{lake.ulid(name)}/")])
    name = ulids.new(lake.clock.now)
    retire = edits.Retire(id=name, reason="", author="", time=lake.clock.now, sources=(lake.source("a"),))
    lake.bucket.create(keys.edit(STREAM, name), retire.to_json())
    assert verify(lake).findings == ()


def test_expired_rows_are_not_missed(lake: Lake) -> None:
    """Where rows expire, a block that is gone is none that is missed."""
    log(lake, lake.clock.now)
    remove(lake)
    name = ulids.new(lake.clock.now)
    expire = edits.Expire(id=name, reason="", author="", time=lake.clock.now, before=FIRST_DAY + 48 * HOUR)
    lake.bucket.create(keys.edit(STREAM, name), expire.to_json())
    assert verify(lake).findings == ()


def test_a_block_that_was_just_uploaded_is_not_missed(lake: Lake) -> None:
    """What was uploaded within sync_delay may not be listed yet, and is not missed."""
    log(lake, lake.clock.now + 2 * HOUR - 60_000)
    remove(lake)
    assert verify(lake).findings == ()


def test_a_block_that_lost_its_meta(lake: Lake) -> None:
    """Without meta.json a block that the log knows as once whole is damage; one that it does not know is none."""
    remove(lake, "meta.json")
    assert verify(lake).findings == ()
    log(lake, lake.clock.now)
    assert ("missing-file", "meta.json") in found(lake)


def test_a_missing_file_of_sources(lake: Lake) -> None:
    """A block that keeps its many sources in a file of its own, and lost it, is unreadable, and no upload that died."""
    table = with_source(rows(2), lake.source("b"))
    many = [lake.source("b"), *(ulids.derive(number, "many") for number in range(10_000))]
    lake.upload("b", table, sources=many)
    assert verify(lake).findings == ()
    lake.file("b", "sources").unlink()
    (finding,) = verify(lake).findings
    assert (finding.block, finding.kind) == (lake.ulid("b"), "unreadable-meta")
    assert "its file of sources, which meta.json names, is missing" in finding.what


def test_a_source_with_two_owners(lake: Lake) -> None:
    """A timeline that would have a source read twice, or from nowhere, is found out."""
    lake.ingest("b", rows(2))
    lake.ingest("c", rows(3))
    lake.merge("ab", "a", "b")
    lake.merge("bc", "b", "c")
    view = look(lake.bucket, STREAM, lake.clock.now + 2 * HOUR)
    assert list(_check_owners(view.snapshot, view.timeline)) == []
    visible = view.timeline.visible

    def owners(excluded: Callable[[Visible], frozenset[str]]) -> set[str]:
        wrong = {name: dataclasses.replace(each, excluded=excluded(each)) for name, each in visible.items()}
        timeline = dataclasses.replace(view.timeline, visible=wrong)
        return {each.what.split(" is read from ")[1] for each in _check_owners(view.snapshot, timeline)}

    assert owners(lambda _: frozenset()) == {"2 groups, not from one."}
    assert owners(lambda each: each.group.sources) == {"0 groups, not from one."}


def test_a_block_of_another_tool(lake: Lake) -> None:
    """A block without Drystone's part is named as another tool's; its files are checked all the same."""
    rewrite_meta(lake, lambda meta: meta["thanos"].update(extensions={}, source="sidecar"))
    assert found(lake) == [("foreign", "")]
    lake.file("a", CHUNK).unlink()
    assert ("missing-file", CHUNK) in found(lake)


class _Sweeping(LocalBucket):
    """A folder from which objects are removed at the moment that the first chunk is asked for."""

    victims: tuple[str, ...] = ()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        victims, self.victims = self.victims, ()
        self.delete(victims)
        return super().get_range(key, start, length)


@pytest.mark.parametrize(("victims", "kinds"), [(("meta.json", CHUNK), []), ((CHUNK,), ["missing-file"])])
def test_a_block_that_vanishes_meanwhile(lake: Lake, victims: tuple[str, ...], kinds: list[str]) -> None:
    """A block whose deletion begins while it is read is passed over; a file that vanishes alone is named."""
    bucket = _Sweeping(lake.folder / "bucket", lake.clock)
    bucket.victims = tuple(keys.block(STREAM, lake.ulid("a"), name) for name in victims)
    seen = verify_stream(bucket, STREAM, lake.clock.now + 2 * HOUR, deep=True)
    assert [each.kind for each in seen.findings] == kinds


def test_one_block(lake: Lake) -> None:
    """One block can be verified alone; one that does not exist is refused."""
    ulid = lake.ulid("a")
    assert verify_stream(lake.bucket, STREAM, lake.clock.now, only=ulid).blocks == 1
    with pytest.raises(UsageError, match="has no block 01ARZ3NDEKTSV4RRFFQ69G5FAV"):
        verify_stream(lake.bucket, STREAM, lake.clock.now, only="01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_an_upload_that_runs(lake: Lake) -> None:
    """A block without meta.json is told as an upload that runs or died, when it is asked for."""
    remove(lake, "meta.json")
    folder = ListingTracker(lake.bucket, STREAM).observe(lake.clock.now).folders[lake.ulid("a")]
    (finding,) = verify_block(lake.bucket, STREAM, folder, deep=True)
    assert isinstance(finding, Finding)
    assert (finding.severity, finding.kind) == ("problem", "partial")
