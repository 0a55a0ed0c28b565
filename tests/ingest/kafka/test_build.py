"""What a task makes of a plan: each message one row or one dead letter, in deterministic slices, or nothing at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drystone.bucket.memory import MemoryBucket
from drystone.errors import GivenUpError, InputError, InvariantError
from drystone.ingest.kafka.build import BuiltPlan, PlanBuilder
from drystone.ingest.kafka.headers import from_text
from drystone.ingest.kafka.plans import Plan, Slices
from drystone.ingest.kafka.settle import read_slices
from drystone.ingest.parsers.protocol import Parsed
from drystone.testing.messages import (
    DAY,
    FieldsParser,
    Message,
    backup_config,
    batches,
    dead_config,
    flight,
    partition_config,
    plan,
    target,
)

NOW = 1_700_000_000_000
_TODAY = NOW - NOW % DAY
_MB = 1 << 20


@dataclass
class Bench:
    """A bucket, and builders over it."""

    bucket: MemoryBucket

    def backup(self, found: Plan, **more: object) -> PlanBuilder:
        """Return the builder of a backup plan."""
        main = target(self.bucket, "raw", backup_config())
        return replace(self._builder(found), main=main, dead=None, parser=None, **more)

    def partition(self, found: Plan, **more: object) -> PlanBuilder:
        """Return the builder of a partition plan."""
        return replace(self._builder(found), **more)

    def _builder(self, found: Plan) -> PlanBuilder:
        return PlanBuilder(
            bucket=self.bucket,
            plans={(found.topic, found.partition): found},
            main=target(self.bucket, "flights", partition_config()),
            dead=target(self.bucket, "dead", dead_config()),
            parser=FieldsParser(),
            max_bad_fraction=0.5,
            present=frozenset(),
            memory=512 * _MB,
            clock=lambda: NOW,
        )

    def rows(self, stream: str) -> dict[str, pa.Table]:
        """Return the rows of each block's own source."""
        found = {}
        for each in self.bucket.list(f"{stream}/"):
            if each.key.endswith("/meta.json"):
                source = json.loads(self.bucket.get(each.key))["compaction"]["sources"][0]
                found[source] = _read(self.bucket, each.key.removesuffix("meta.json"))
        return found

    def everything(self, stream: str) -> pa.Table:
        """Return all rows, by offset."""
        return pa.concat_tables(self.rows(stream).values()).sort_by("kafka_offset")


def _read(bucket: MemoryBucket, folder: str) -> pa.Table:
    chunks = (each.key for each in bucket.list(f"{folder}chunks/"))
    return pa.concat_tables(pa.parquet.read_table(pa.BufferReader(bucket.get(key))) for key in sorted(chunks))


@pytest.fixture
def bench() -> Bench:
    """An empty bucket."""
    return Bench(MemoryBucket(uuid4().hex))


def _run(builder: PlanBuilder, found: Iterator[pa.RecordBatch]) -> list[BuiltPlan]:
    return [BuiltPlan.model_validate_json(text) for batch in builder(found) for text in batch["result"].to_pylist()]


def _headers(text: str | None) -> tuple[tuple[str, bytes | None], ...]:
    pairs = from_text(pa.array([text], pa.string()))[0].as_py()
    return tuple((each["key"], each["value"]) for each in pairs)


def _slices(bench: Bench, found: Plan) -> Slices:
    slices = read_slices(bench.bucket, found)
    assert slices is not None
    return slices


def _raw(count: int) -> list[Message]:
    """Messages over two days, with holes among the offsets, in the order of their offsets but not of their times."""
    return [
        Message(
            offset=number * 2,
            time=_TODAY - (number % 2) * DAY + number,
            key=None if number % 3 else b"k%d" % number,
            value=None if number % 7 == 6 else b"\x00\xff%d" % number,
            headers=(("trace", b"%d" % number), ("none", None)) if number % 5 == 0 else (),
        )
        for number in range(count)
    ]


def test_a_backup_keeps_every_byte(bench: Bench) -> None:
    """Key, value, headers, time and place, nulls included, in a block for each day, whatever the batches."""
    messages, mine = _raw(2500), plan("raw", 0, 5000, NOW)
    (built,) = _run(bench.backup(mine), batches(messages, 999))
    assert (built.messages, built.bad, len(built.slices)) == (2500, 0, 2)
    rows = bench.everything("raw").to_pylist()
    assert [
        Message(
            row["kafka_offset"],
            int(row["kafka_timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            _headers(row["headers"]),
        )
        for row in rows
    ] == messages
    slices = _slices(bench, mine)
    assert [(each.chunk_start, each.rows, each.first_offset, each.last_offset) for each in slices.slices] == [
        (_TODAY - DAY, 1250, 2, 4998),
        (_TODAY, 1250, 0, 4996),
    ]
    assert set(bench.rows("raw")) == {each.source for each in slices.slices}


def test_rows_of_unknown_time_have_a_slice_of_their_own(bench: Bench) -> None:
    """No time, 1970 or next week: null, and in the chunk of the plan's own time, never in 1970."""
    times = [None, 0, NOW + DAY + 1, NOW + DAY, NOW]
    mine = plan("raw", 0, 5, NOW)
    _run(bench.backup(mine), batches([Message(offset, time) for offset, time in enumerate(times)]))
    found = {(each.unknown, each.chunk_start): each for each in _slices(bench, mine).slices}
    unknown = found.pop((True, _TODAY))
    assert {key: each.rows for key, each in found.items()} == {(False, _TODAY): 1, (False, _TODAY + DAY): 1}
    names = ["kafka_offset", "kafka_timestamp", "kafka_timestamp_ms"]
    assert [tuple(row.values()) for row in bench.rows("raw")[unknown.source].select(names).to_pylist()] == [
        (offset, None, times[offset]) for offset in range(3)
    ], "what Kafka has is kept"


def test_each_message_is_a_row_or_a_dead_letter(bench: Bench) -> None:
    """A dead letter has all that it takes to send it again; no message is in both streams, or in none."""
    headers = (("h", b"\x01"),)
    good = [flight(2 * number, "2023-11-14T00:00:00Z", "Oslo", NOW) for number in range(4)]
    bad = [Message(2 * number + 1, NOW, b"key", b"{broken", headers) for number in range(3)]
    messages = sorted([*good, *bad], key=lambda each: each.offset)
    mine = plan("flights", 0, 7, NOW)
    (built,) = _run(bench.partition(mine), batches(messages, 2))
    assert (built.messages, built.bad) == (7, 3)
    assert bench.everything("flights")["kafka_offset"].to_pylist() == [0, 2, 4, 6]
    dead = bench.everything("dead").drop_columns(["__source"]).to_pylist()
    assert [row.pop("kafka_offset") for row in dead] == [1, 3, 5]
    assert all("JSONDecodeError" in row.pop("error") for row in dead)
    assert {row.pop("kafka_timestamp").timestamp() for row in dead} == {NOW / 1000}
    assert {row.pop("kafka_timestamp_ms") for row in dead} == {NOW}
    assert {tuple(row.values()) for row in dead} == {("flights", 0, b"key", b"{broken", '[["h","AQ=="]]')}
    assert {each.stream for each in _slices(bench, mine).slices} == {"flights", "dead"}


def test_splits_are_slices(bench: Bench) -> None:
    """The parser's own parts of a chunk: a source and a block each."""
    messages = [flight(number, "2023-11-14T00:00:00Z", city, NOW) for number, city in enumerate(["Oslo", "Rome"] * 3)]
    mine = plan("flights", 0, 6, NOW)
    _run(bench.partition(mine, parser=FieldsParser(split=True)), batches(messages, 4))
    found = _slices(bench, mine).slices
    assert [(each.split, each.rows) for each in found] == [("Oslo", 3), ("Rome", 3)]
    assert {source: rows["city"].unique().to_pylist() for source, rows in bench.rows("flights").items()} == {
        each.source: [each.split] for each in found
    }


@settings(deadline=None, max_examples=30)
@given(
    found=st.lists(st.tuples(st.sampled_from(["Oslo", "Rome", "Bonn"]), st.integers(0, 3)), min_size=1, max_size=60),
    rows=st.integers(1, 60),
    memory=st.sampled_from([20_000, 60_000, 512 * _MB]),
)
def test_a_retry_gives_the_same_slices_and_rows(found: list[tuple[str, int]], rows: int, memory: int) -> None:
    """Whatever the batches and the memory, so whatever was spilled: the same sources, with the same rows in order."""
    messages = [flight(number, f"2023-11-{10 + day}T00:00:00Z", city, NOW) for number, (city, day) in enumerate(found)]
    mine = plan("flights", 0, len(found), NOW)
    outcomes = []
    for how in ((1000, 512 * _MB), (rows, memory)):
        bench = Bench(MemoryBucket(uuid4().hex))
        _run(bench.partition(mine, memory=how[1]), batches(messages, how[0]))
        outcomes.append(
            (_slices(bench, mine), {name: table.to_pylist() for name, table in bench.rows("flights").items()})
        )
    assert outcomes[0] == outcomes[1]
    assert sum(each.rows for each in outcomes[0][0].slices) == len(found)


def test_spilled_rows_come_back_in_order_and_nothing_stays_on_disk(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more than the memory, in many runs: sorted, whole, and the local folder is gone, also after a failure."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    count = 20_000
    messages = [
        flight(number, f"2023-11-{1 + number % 3:02}T00:00:00Z", f"city {number * 7919 % 1000}", NOW)
        for number in range(count)
    ]
    mine = plan("flights", 0, count, NOW)
    (built,) = _run(bench.partition(mine, memory=2 * _MB), batches(messages, 500))
    assert sum(each.rows for each in built.slices) == count
    for rows in bench.rows("flights").values():
        assert rows.equals(rows.sort_by([("city", "ascending"), ("at", "ascending"), ("kafka_offset", "ascending")]))
    assert bench.everything("flights")["kafka_offset"].to_pylist() == list(range(count))
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError):
        _run(bench.partition(mine, memory=2 * _MB, max_bad_fraction=0), batches([Message(0, value=b"?")]))
    assert not list(tmp_path.iterdir())


def test_too_many_bad_messages_stop_a_plan_before_anything_is_uploaded(bench: Bench) -> None:
    """Of the whole plan, not of its beginning: what is refused leaves nothing behind, and says what is wrong."""
    messages = [flight(number, "2023-11-14T00:00:00Z", "Oslo", NOW) for number in range(96)]
    messages += [Message(number, NOW, value=b"{broken") for number in range(96, 100)]
    mine = plan("flights", 0, 100, NOW)
    before = {each.key for each in bench.bucket.list("")}
    with pytest.raises(InputError, match=r"4 of 100 messages of flights-0 \[0, 100\).*3.00%.*offset 96: no object"):
        _run(bench.partition(mine, max_bad_fraction=0.03), batches(messages, 10))
    assert {each.key for each in bench.bucket.list("")} - before == {"dead/.stream.json", *_records(bench)}
    _run(bench.partition(mine, max_bad_fraction=0.04), batches(messages, 10))
    assert bench.everything("dead").num_rows == 4


def _records(bench: Bench) -> set[str]:
    return {each.key for each in bench.bucket.list("") if "/.schemas/" in each.key or each.key.endswith(".stream.json")}


def test_slices_with_a_block_are_passed_over(bench: Bench) -> None:
    """What a killed run has uploaded stays as it is; the rest is made good."""
    messages, mine = _raw(100), plan("raw", 0, 200, NOW)
    _run(bench.backup(mine), batches(messages))
    first = _slices(bench, mine).slices[0]
    before = len(bench.rows("raw"))
    again = Bench(MemoryBucket(uuid4().hex))
    (built,) = _run(again.backup(mine, present=frozenset({first.source})), batches(messages))
    assert [each.ulid == "" for each in built.slices] == [True, False]
    assert set(again.rows("raw")) == set(bench.rows("raw")) - {first.source}
    assert before == 2


def test_another_attempt_that_comes_to_other_slices_uploads_nothing(bench: Bench) -> None:
    """A parser that does not do the same each time: readers would get some of both."""
    messages = [flight(number, "2023-11-14T00:00:00Z", "Oslo", NOW) for number in range(5)]
    mine = plan("flights", 0, 5, NOW)
    _run(bench.partition(mine), batches(messages))
    before = {each.key for each in bench.bucket.list("")}
    with pytest.raises(InvariantError, match=r"flights-0 \[0, 5\) came to other slices"):
        _run(bench.partition(mine, parser=FieldsParser(split=True)), batches(messages))
    assert {each.key for each in bench.bucket.list("")} == before


def test_a_plan_that_was_given_up_uploads_nothing(bench: Bench) -> None:
    """Whoever gives a plan up writes empty slices first: a zombie that comes later finds them."""
    mine = plan("raw", 0, 200, NOW)
    bench.bucket.create(mine.slices_key, Slices(attempt=0, slices=(), messages=0, bad=0).to_json())
    with pytest.raises(GivenUpError, match="given up by another run"):
        _run(bench.backup(mine), batches(_raw(10)))
    assert not bench.rows("raw")


@pytest.mark.parametrize(
    ("offsets", "why"), [([3, 2], "offsets 3 to 2"), ([0, 0], "offsets 0 to 0"), ([9, 10], "offsets 9 to 10")]
)
def test_messages_that_are_not_the_plan_s_are_refused(bench: Bench, offsets: Sequence[int], why: str) -> None:
    """Doubled, out of order, or beyond the plan's end: whatever reads the topic, no row is made of them."""
    with pytest.raises(InvariantError, match=why):
        _run(bench.backup(plan("raw", 0, 10, NOW)), batches([Message(each, NOW) for each in offsets]))
    with pytest.raises(InvariantError, match="for the plan"):
        _run(bench.backup(plan("raw", 0, 10, NOW)), batches([Message(each, NOW) for each in offsets], rows=1))
    assert not bench.rows("raw")


def test_a_message_that_is_too_large_for_memory_is_one_clear_line(bench: Bench) -> None:
    """Larger than a row group is no matter; larger than a task may hold says where it is and what to do."""
    mine = plan("raw", 0, 3, NOW)
    large = [Message(0, NOW, value=b"a"), Message(1, NOW, value=b"b" * (3 * _MB)), Message(2, NOW)]
    _run(bench.backup(mine, memory=30 * _MB), batches(large))
    assert [len(value or b"") for value in bench.everything("raw")["value"].to_pylist()] == [1, 3 * _MB, 0]
    with pytest.raises(InputError, match=r"flights-0, offset 1 has 3,[\d,]+ bytes.*raise memory_per_task"):
        _run(Bench(MemoryBucket(uuid4().hex)).backup(mine, memory=20 * _MB), batches(large))


@dataclass(frozen=True)
class _Careless(FieldsParser):
    """A user's parser that forgets its last message, or gives one twice."""

    forget: bool = True

    def parse(self, messages: pa.RecordBatch, planned_at: int) -> Parsed:
        found = super().parse(messages, planned_at)
        count = len(found.positions)
        rows = list(range(count - 1)) if self.forget else [0, *range(count)]
        return Parsed(found.rows.take(rows), found.positions.take(pa.array(rows)), None, found.errors)


@pytest.mark.parametrize("forget", [True, False])
def test_a_parser_can_neither_lose_nor_double_a_message(bench: Bench, forget: bool) -> None:  # noqa: FBT001
    """Whatever a user's parser does, each message is one row or one error."""
    messages = [flight(number, "2023-11-14T00:00:00Z", "Oslo", NOW) for number in range(5)]
    with pytest.raises(InvariantError, match="of 5 messages"):
        _run(bench.partition(plan("flights", 0, 5, NOW), parser=_Careless(forget=forget)), batches(messages))
    assert not bench.rows("flights")


def test_several_plans_in_one_task_are_kept_apart(bench: Bench) -> None:
    """Two partitions, one after the other: a line, slices and sources for each."""
    first, second = plan("raw", 0, 20, NOW), plan("raw", 0, 20, NOW, partition=1)
    builder = replace(bench.backup(first), plans={("flights", 0): first, ("flights", 1): second})
    found = [*batches(_raw(10)), *batches(_raw(10), partition=1)]
    assert [(each.partition, each.messages) for each in _run(builder, iter(found))] == [(0, 10), (1, 10)]
    assert len(bench.rows("raw")) == 4
