"""A wrong range is parsed anew from a real broker, or from the backup, while ingest goes on and readers read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from buckets import Spy, killed_at_write, meanwhile
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka_world import KafkaWorld, Position

from drystone import ulids
from drystone.errors import BucketError, KafkaError, UsageError
from drystone.ingest.backfill.choose import OffsetRange
from drystone.ingest.kafka import produce as produce_module
from drystone.ingest.kafka.broker import Broker
from drystone.ingest.kafka.fetch import fetch
from drystone.ingest.kafka.lag import lag_of
from drystone.ingest.kafka.log import Partition
from drystone.ingest.kafka.produce import produce
from drystone.ingest.kafka.streams import kafka_stream, kafka_streams
from drystone.ingest.kafka.trace import trace_block, trace_message
from drystone.jobs import EraseRequest, ReplayRequest
from drystone.testing.kafka import KafkaBroker
from drystone.testing.messages import FieldsParser
from drystone.verbs.backfill import Backfill
from drystone.verbs.replay import Replay, prepare
from drystone.verbs.requests import Desk

pytestmark = pytest.mark.kafka
_SLOW = pytest.mark.slow

_CITIES = ("Oslo", "Rome", "Bonn", "Lima", "Kyiv")
_BUGS = FieldsParser(wrong=frozenset({"Oslo"}), refused=frozenset({"Rome"}))
_RIGHT = FieldsParser(refused=frozenset({"Lima"}))
"""Lima was taken for good, and is none."""


@pytest.fixture
def world(kafka: KafkaBroker, tmp_path: Path) -> Iterator[KafkaWorld]:
    """A topic of its own, empty streams."""
    found = KafkaWorld(kafka, tmp_path)
    yield found
    kafka.delete_topic(found.topic)


def _fill(world: KafkaWorld, rows: int = 60) -> None:
    world.produce([(f"2023-11-{1 + number % 3:02}T00:00:00Z", _CITIES[number % 5]) for number in range(rows)], broken=4)


def _expected(world: KafkaWorld, rows: int = 60) -> tuple[dict[Position, str], set[Position]]:
    """Return what the right parser makes of the messages of `_fill`: good ones with their city, and bad ones."""
    good, bad, offsets = {}, set(), [0, 0]
    for number in range(rows + 4):
        place = (number % 2, offsets[number % 2])
        offsets[number % 2] += 1
        city = _CITIES[number % 5] if number < rows else "Lima"
        if city == "Lima":
            bad.add(place)
        else:
            good[place] = city
    return good, bad


def _ingested(world: KafkaWorld) -> None:
    _fill(world)
    world.ingest("raw")
    world.ingest("flights", _BUGS)
    world.pass_time()


def _check(world: KafkaWorld) -> None:
    good, bad = _expected(world)
    assert world.cities() == good
    assert set(world.errors()) == bad


def test_a_wrong_range_is_put_right_from_kafka(world: KafkaWorld) -> None:
    """Misspelt rows, dead letters that are none, rows that should be dead letters: all as if parsed right at once."""
    _ingested(world)
    assert "OSLO" in world.cities().values()
    before = world.rows("raw")
    done = world.do(_RIGHT)
    assert done.summary["messages"] == 64
    world.pass_time()
    _check(world)
    assert world.rows("raw") == before


def test_what_kafka_has_lost_comes_from_the_backup(world: KafkaWorld) -> None:
    """Some offsets are gone, or all of them: no difference in what comes out."""
    _ingested(world)
    world.broker.delete_records(world.topic, 0, 10)
    world.broker.delete_records(world.topic, 1, 32)
    plan = world.backfill(_RIGHT)
    assert "before offset 10 the backup (raw)" in "\n".join(plan.report)
    assert not world.backfill(_RIGHT, plan_key=plan.plan_key).failures
    world.pass_time()
    _check(world)


def test_what_is_nowhere_any_more_changes_nothing(world: KafkaWorld) -> None:
    """Neither in Kafka nor in a backup: one line says which messages, and the rows stay as they are."""
    _fill(world)
    world.ingest("flights", _BUGS)
    world.pass_time()
    before = world.cities()
    world.broker.delete_records(world.topic, 0, 10)
    plan = world.backfill(_RIGHT)
    (failure,) = world.backfill(_RIGHT, plan_key=plan.plan_key).failures
    assert "10 messages of" in failure
    assert "neither in Kafka nor in a backup, the first of them offset 0." in failure
    world.pass_time()
    after = world.cities()
    assert {place: city for place, city in after.items() if place[0] == 0} == {
        place: city for place, city in before.items() if place[0] == 0
    }
    assert "OSLO" not in {city for place, city in after.items() if place[0] == 1}


def test_the_newest_of_several_backfills_wins(world: KafkaWorld) -> None:
    """Two that do not see one another, the older one done last: for each row what the newest made of it."""
    _ingested(world)
    everything = set(world.rows("raw"))
    old = world.run(FieldsParser(refused=frozenset({"Kyiv"})))
    old_plan = old.plan()
    world.pass_time(1000)
    new = world.run(_RIGHT)
    new_plan = new.plan()
    for run, plan in ((new, new_plan), (old, old_plan)):
        assert not run.carry_out(plan, 0).failures
    world.pass_time()
    good, _ = _expected(world)
    found = world.cities()
    assert found == good
    assert set(world.errors()) == everything - set(good)
    late = world.run(_RIGHT)
    assert "Plan again." in late.carry_out(new_plan.model_copy(update={"id": ulids.new(world.now())}), 0).failures[0]
    world.do(_RIGHT)
    world.pass_time()
    _check(world)


def test_a_backfill_goes_back_and_forth(world: KafkaWorld) -> None:
    """What went over to the other stream is found there by the next backfill, and comes back."""
    _ingested(world)
    for parser in (_RIGHT, _BUGS, _RIGHT):
        world.do(parser)
        world.pass_time()
    _check(world)


def test_rows_that_nobody_sees_yet_are_not_replaced(world: KafkaWorld) -> None:
    """Right after an ingest, or another backfill: replaced by what is seen of them, by nothing, they would be lost."""
    _fill(world)
    world.ingest("raw")
    world.ingest("flights", _BUGS)
    for parser in (_RIGHT, _BUGS):
        plan = world.backfill(parser)
        refused = world.backfill(parser, plan_key=plan.plan_key)
        assert all("not ready to be read yet" in failure for failure in refused.failures)
        assert refused.retryable
        assert len(refused.failures) == 2
        world.pass_time()
        assert not world.backfill(parser, plan_key=plan.plan_key).failures
    world.pass_time()
    world.do(_RIGHT)
    world.pass_time()
    _check(world)


def test_what_was_erased_does_not_come_back(world: KafkaWorld) -> None:
    """Kafka still has it: neither what the erasure names, nor what it named only as long as it was parsed wrongly."""
    _ingested(world)
    config = world.loaded.stream("flights")
    desk = Desk(world.bucket, "flights", config, world.now)
    for city in ("Bonn", "OSLO"):
        request = EraseRequest.model_validate(
            {"predicate": {"column": "city", "op": "=", "value": city}, "reason": "asked for", "author": "me"}
        )
        desk.carry_out(desk.plan(request, desk.look()), "erase", "me")
    world.do(_RIGHT)
    world.pass_time()
    good, _ = _expected(world)
    assert world.cities() == {place: city for place, city in good.items() if city not in {"Bonn", "Oslo"}}


def test_too_many_bad_messages_leave_a_plan_as_it_is(world: KafkaWorld) -> None:
    """A parser that is worse than the one before: nothing of the plan is replaced."""
    _ingested(world)
    before = world.cities()
    worse = FieldsParser(refused=frozenset({"Oslo", "Bonn", "Lima"}))
    plan = world.backfill(worse)
    failures = world.backfill(worse, plan_key=plan.plan_key).failures
    assert all("cannot be parsed, and max_bad_fraction allows 50.00%" in failure for failure in failures)
    world.pass_time()
    assert world.cities() == before


def test_dates_choose_plans_too(world: KafkaWorld) -> None:
    """By the chunks of the rows as they lie now; a range that nothing lies in plans nothing."""
    _ingested(world)
    assert not world.backfill(_RIGHT, interval=("2020-01-01", "2020-02-01")).batches
    world.do(_RIGHT, interval=("2023-11-02", "2023-11-03"))
    world.pass_time()
    _check(world)


def test_another_parser_than_the_planned_one_is_refused(world: KafkaWorld) -> None:
    """What a person said yes to is what is done."""
    _ingested(world)
    plan = world.backfill(_RIGHT)
    with pytest.raises(UsageError, match="parser has changed since plan"):
        world.backfill(_BUGS, plan_key=plan.plan_key)
    with pytest.raises(UsageError, match="read no topic other"):
        world.backfill(_RIGHT, offsets=("other:0",))


def test_trace_finds_a_message_wherever_it_is(world: KafkaWorld) -> None:
    """Block and row in the backup and in the stream, or the dead letters, before and after a backfill."""
    _ingested(world)
    streams = kafka_streams(world.loaded)

    def found(offset: int) -> dict[str, tuple[str, int | None]]:
        traced = trace_message(streams, world.topic, 0, offset, world.now)
        return {each.stream: (each.block, each.row) for each in traced if each.state == "visible"}

    assert set(found(0)) == {"raw", "flights"}
    assert set(found(3)) == {"raw", "dead"}, "offset 3 of partition 0 is message 6, of Rome"
    raw, row = found(0)["raw"]
    traced = trace_block(streams, found(0)["flights"][0], world.now)
    assert raw in traced.raw["raw"]
    assert all(each.first_offset <= each.last_offset and each.partition == 0 for each in traced.ranges)
    assert row == 0
    world.do(_RIGHT)
    world.pass_time()
    assert set(found(3)) == {"raw", "flights"}
    late = trace_block(streams, found(3)["flights"][0], world.now)
    assert [(each.first_offset, each.rows) for each in late.ranges if each.first_offset == 3]
    (unknown,) = trace_message([streams[1]], world.topic, 0, 999, world.now)
    assert "in no committed plan" in unknown.state


def test_messages_are_sent_again_as_they_were(world: KafkaWorld) -> None:
    """From the backup, and from the dead letters: key, value, headers, time, partition and order; all or none."""
    _ingested(world)
    target = f"{world.topic}-again"
    world.broker.create_topic(target, 2)
    streams = kafka_streams(world.loaded)
    raw, dead, flights = (next(each for each in streams if each.name == name) for name in ("raw", "dead", "flights"))
    ranges = [OffsetRange(world.topic, 0, 5, 20), OffsetRange(world.topic, 1)]
    rules = raw.config.kafka
    replay = Replay(raw, streams, ranges, target, rules, again=False, clock=world.now, name="one")
    assert sum(replay.count().values()) == 15 + 32
    assert replay.run() == 15 + 32
    for number, (start, end) in enumerate([(5, 20), (0, 32)]):
        before, after = (
            pa.Table.from_batches(list(fetch(rules, "test", (topic, number), *bounds)))
            for topic, bounds in ((world.topic, (start, end)), (target, (0, end - start)))
        )
        places = ["topic", "offset"]
        assert after.drop_columns(places).equals(before.drop_columns(places))
    assert replace(replay, stream=dead, ranges=[OffsetRange(world.topic, 0)]).run() == len(
        [place for place in world.errors() if place[0] == 0]
    )
    with pytest.raises(UsageError, match="keeps parsed rows"):
        replace(replay, stream=flights).run()
    with pytest.raises(UsageError, match="ingested once more"):
        replace(replay, to=world.topic).run()
    world.broker.create_topic(f"{target}-narrow")
    with pytest.raises(UsageError, match="1 partitions, and messages are of partition 1"):
        replace(replay, to=f"{target}-narrow").run()


def _tries(world: KafkaWorld, name: str) -> None:
    """Try a run twice, another run, and a run whose first try still sends; fail if something is sent twice by one."""
    target = f"{world.topic}-{name}"
    world.broker.create_topic(target, 2)
    request = ReplayRequest(offsets=(f"{world.topic}:0:5-19", f"{world.topic}:1:0-9"), to=target)
    rules = world.loaded.stream("raw").kafka

    def send(run: str) -> int:
        return prepare(world.loaded, "raw", request, run, world.now).run()

    def sent() -> int:
        with Broker(rules, "test") as broker:
            ends = broker.offsets([Partition(target, number) for number in (0, 1)])
        places = [(place.number, found.end) for place, found in ends.items()]
        return sum(batch.num_rows for number, end in places for batch in fetch(rules, "test", (target, number), 0, end))

    assert [send("one"), send("one")] == [25, 25]
    assert sent() == 25
    batches = list(fetch(rules, "test", (world.topic, 0), 0, 10))
    assert send("two") == 25
    assert sent() == 50

    def slow() -> Iterator[pa.RecordBatch]:
        yield from batches
        assert produce(rules, target, batches, f"{name}-three") == 10
        yield from batches

    with suppress(KafkaError):
        produce(rules, target, slow(), f"{name}-three")
    assert produce(rules, target, batches, f"{name}-three") == 10
    assert sent() == 60


def test_another_try_of_a_replay_sends_nothing_twice(world: KafkaWorld) -> None:
    """Not after it was sent, and not if the try before still sends: that one fails. Another run sends once more."""
    _ingested(world)
    _tries(world, "once")


class _Forgetful(Consumer):  # type: ignore[misc]
    """Finds no offset of the tries before."""

    def committed(self, partitions: Sequence[TopicPartition], *_: object) -> list[TopicPartition]:
        """See Consumer."""
        return [TopicPartition(each.topic, each.partition) for each in partitions]


def _unfenced(settings: Mapping[str, object]) -> Producer:
    return Producer({**settings, "transactional.id": uuid4().hex})


_TWICE: Mapping[str, Callable[[pytest.MonkeyPatch], None]] = {
    "nobody looks whether it was sent": lambda patch: patch.setattr(produce_module, "Consumer", _Forgetful),
    "no try keeps others off": lambda patch: patch.setattr(produce_module, "Producer", _unfenced),
    "each try has a name of its own": lambda patch: patch.setattr(
        Replay, "_transaction", property(lambda _: f"drystone-replay-{uuid4().hex}")
    ),
}


def test_a_planted_replay_that_sends_twice_is_seen(world: KafkaWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever part of it is missing."""
    _ingested(world)
    for number, (bug, plant) in enumerate(_TWICE.items()):
        with monkeypatch.context() as patch:
            plant(patch)
            try:
                _tries(world, f"planted-{number}")
            except AssertionError:
                continue
        pytest.fail(f"nobody noticed: {bug}")


def test_lag_is_told_by_partition(world: KafkaWorld) -> None:
    """What is in blocks, what waits and since when, what is bad, and what Kafka deleted before anybody read it."""
    _ingested(world)
    world.produce([(None, "Oslo")] * 10)
    rules = world.loaded.stream("flights").kafka
    flights, raw = (kafka_stream(world.loaded, name) for name in ("flights", "raw"))
    with Broker(rules, "test") as broker:
        found = lag_of(flights, broker, world.now())
        assert [(each.committed, each.end, each.waiting, each.lost) for each in found] == [(32, 37, 5, 0)] * 2
        assert sum(each.dead_letters for each in found) == len(world.errors()) == 16
        assert all(each.age is not None and 1000 <= each.age < 600_000 for each in found)
        world.ingest("raw")
        world.broker.delete_records(world.topic, 1, 35)
        assert [(each.waiting, each.lost) for each in lag_of(flights, broker, world.now())] == [(5, 0), (2, 3)]
        assert [(each.waiting, each.oldest) for each in lag_of(raw, broker, world.now())] == [(0, None)] * 2


class _Reader(threading.Thread):
    """Reads both streams again and again: what is in the backup when it begins must be there, once in a stream."""

    def __init__(self, world: KafkaWorld) -> None:
        super().__init__()
        self.world, self.stopped, self.looks = world, threading.Event(), 0
        self.wrong: list[str] = []

    def run(self) -> None:
        """Read until it is stopped."""
        while not self.stopped.is_set():
            try:
                known = set(self.world.settled)
                # What changes streams is for a while in both: it comes to the one before it leaves the other.
                found = [set(self.world.cities()), set(self.world.errors()), set(self.world.cities())]
            except BucketError:
                continue  # The clock was put on while it looked.
            except AssertionError as error:
                self.wrong.append(str(error))
                continue
            self.looks += 1
            if missing := known - set().union(*found):
                self.wrong.append(f"{sorted(missing)[:3]} are missing")


def test_readers_see_each_message_while_a_backfill_and_ingest_go_on(world: KafkaWorld) -> None:
    """A parser bug is found by trace, put right from Kafka, then from the backup: no reader sees a gap or a double."""
    _ingested(world)
    world.settled = set(world.rows("raw"))
    wrong = next(place for place, city in world.cities().items() if city == "OSLO")
    traced = trace_message(kafka_streams(world.loaded), world.topic, *wrong, world.now)
    block = next(each.block for each in traced if each.stream == "flights")
    affected = trace_block(kafka_streams(world.loaded), block, world.now).ranges
    offsets = tuple(f"{each.topic}:{each.partition}:{each.first_offset}-{each.last_offset}" for each in affected)
    reader = _Reader(world)
    reader.start()
    try:
        for step, parser in enumerate((_RIGHT, _BUGS, _RIGHT)):
            plan = world.backfill(parser, offsets=(*offsets, f"{world.topic}:{1 - wrong[0]}"))
            world.produce([("2023-11-05T00:00:00Z", "Bonn")] * 4)
            world.ingest("raw")
            world.ingest("flights", parser)
            if step == 1:
                for number in (0, 1):
                    world.broker.delete_records(world.topic, number, 32)
            assert not world.backfill(parser, plan_key=plan.plan_key).failures
            for _ in range(2):
                looks = reader.looks
                while reader.looks < looks + 2 and not reader.wrong:
                    time.sleep(0.01)
                world.pass_time()
            world.settled = set(world.rows("raw"))
    finally:
        reader.stopped.set()
        reader.join()
    assert reader.wrong == []
    good, bad = _expected(world)
    assert {place: city for place, city in world.cities().items() if place[1] < 32} == good
    assert {place for place in world.errors() if place[1] < 32} == bad


@pytest.mark.parametrize("newer_in_between", [False, True], ids=["older in between", "newer in between"])
@pytest.mark.parametrize("writes", [0, pytest.param(6, marks=_SLOW), 12, pytest.param(24, marks=_SLOW)])
def test_two_backfills_at_once_leave_each_message_once(
    world: KafkaWorld, writes: int, *, newer_in_between: bool
) -> None:
    """Neither sees the other, and one is done amid the other's uploads: all is as the newer one alone has it.

    What only the older one takes for a dead letter, and what only it takes for a row, are in one stream all the same.
    """
    _ingested(world)
    parsers = {"older": FieldsParser(refused=frozenset({"Kyiv", "Lima"})), "newer": FieldsParser()}
    assert world.do(FieldsParser(refused=frozenset({"Rome", "Lima"}))).blocks
    world.pass_time()
    inner, outer = ("newer", "older") if newer_in_between else ("older", "newer")
    runs: dict[str, Backfill] = {}
    done: list[str] = []

    def carry_out(name: str) -> None:
        assert not runs[name].carry_out(plans[name], 0).failures
        done.append(name)

    runs[inner] = world.run(parsers[inner])
    runs[outer] = world.run(parsers[outer], Spy(world.bucket, meanwhile(writes, lambda: carry_out(inner))))  # type: ignore[arg-type]
    now = world.now()
    older, newer = sorted(ulids.new(now) for _ in range(2))  # Of one millisecond: the plan's id decides.
    plans = {
        name: runs[name].plan().model_copy(update={"id": ulid}) for name, ulid in (("older", older), ("newer", newer))
    }
    carry_out(outer)
    assert done == [inner, outer]
    world.pass_time()
    everything = set(world.rows("raw"))
    assert set(world.cities()) | set(world.errors()) == everything
    assert not set(world.cities()) & set(world.errors()), "in both streams"
    assert {place for place, city in world.cities().items() if city == "Lima"} == _of_city("Lima")


def test_a_source_that_has_no_rows_any_more_may_get_some_from_an_older_backfill(world: KafkaWorld) -> None:
    """The oldest of three took all rows of it, which the second did not see: the newest still has the last word."""
    world.produce([("2023-11-01T00:00:00Z", _CITIES[number % 5]) for number in range(20)])
    world.ingest("raw")
    world.ingest("flights", _BUGS)
    world.pass_time()
    now = world.now()
    oldest, second, newest = sorted(ulids.new(now) for _ in range(3))
    blind = world.run(_BUGS)
    blind_plan = blind.plan().model_copy(update={"id": second})
    first = world.run(FieldsParser())
    assert not first.carry_out(first.plan().model_copy(update={"id": oldest}), 0).failures
    world.pass_time()
    last = world.run(FieldsParser())
    last_plan = last.plan().model_copy(update={"id": newest})
    assert not blind.carry_out(blind_plan, 0).failures
    assert not last.carry_out(last_plan, 0).failures
    world.pass_time()
    assert set(world.cities()) == set(world.rows("raw"))
    assert world.errors() == {}


def _of_city(wanted: str) -> set[Position]:
    return {(number % 2, number // 2) for number in range(60) if _CITIES[number % 5] == wanted}


@pytest.mark.slow
def test_a_backfill_that_is_killed_anywhere_is_finished_by_the_next(world: KafkaWorld) -> None:
    """After any write: readers see each message at most once in a stream and always in one; at the end all is right."""
    _ingested(world)
    everything = set(world.rows("raw"))
    for writes in range(0, 60, 3):
        plan = world.backfill(_RIGHT if writes % 2 else _BUGS)
        parser = _RIGHT if writes % 2 else _BUGS
        with suppress(BucketError):
            world.backfill(parser, bucket=Spy(world.bucket, killed_at_write(writes)), plan_key=plan.plan_key)  # type: ignore[arg-type]
        for _ in range(2 if writes % 4 else 0):  # Now and then it is tried again at once.
            assert set(world.cities()) | set(world.errors()) == everything
            world.pass_time()
        assert not world.backfill(parser, plan_key=plan.plan_key).failures
        world.pass_time()
        assert set(world.cities()) | set(world.errors()) == everything
        assert not set(world.cities()) & set(world.errors())
    world.do(_RIGHT)
    world.pass_time()
    _check(world)
