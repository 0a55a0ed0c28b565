"""The real job, killed at each step of a real broker's messages to blocks: exactly once, nothing lost, nobody helps.

A job in a process of its own, with a Spark of its own, stands still before or after one of its writes, wherever that is
made, and is killed there with all that belongs to it; or it goes on after another run has done the work.
"""

from __future__ import annotations

import pytest
from kafka_streams import KafkaStream

from drystone.errors import LostMessagesError

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.kafka]

ROOT, PLAN = r"/root\.json$", r"/0{20}\.json$"
SLICES, DONE = r"\.slices\.json$", r"\.done$"
META, CHUNK = r"raw/[0-9A-Z]{26}/meta\.json$", r"raw/[0-9A-Z]{26}/chunks/"
SLOW = pytest.mark.slow
POINTS = [
    pytest.param(ROOT, "before", 1, marks=SLOW),
    pytest.param(ROOT, "after", 1, marks=SLOW),
    pytest.param(PLAN, "before", 1, marks=SLOW),
    pytest.param(PLAN, "after", 1, marks=SLOW),
    pytest.param(PLAN, "after", 2, marks=SLOW),
    pytest.param(SLICES, "before", 1, marks=SLOW),
    pytest.param(SLICES, "after", 1, marks=SLOW),
    pytest.param(CHUNK, "before", 1, marks=SLOW),
    pytest.param(CHUNK, "after", 2, marks=SLOW),
    pytest.param(META, "before", 1, marks=SLOW),
    pytest.param(META, "after", 1),
    pytest.param(META, "after", 2, marks=SLOW),
    pytest.param(META, "before", 4, marks=SLOW),
    pytest.param(META, "after", 4, marks=SLOW),
    pytest.param(DONE, "before", 1, marks=SLOW),
    pytest.param(DONE, "after", 1, marks=SLOW),
    pytest.param(DONE, "before", 2, marks=SLOW),
    pytest.param(DONE, "after", 2, marks=SLOW),
]
"""Two partitions of two days are four blocks of two plans."""


@pytest.fixture
def filled(stream: KafkaStream) -> KafkaStream:
    """The stream, with messages in both partitions."""
    stream.produce(30, aborted=5)
    stream.produce(20, partition=1)
    return stream


def finish(stream: KafkaStream) -> None:
    """The next run does what is left; then everything is there once, and the one after that has nothing to do."""
    result = stream.job()
    assert result.ok, result.error
    stream.check()
    stream.produce(4)
    assert stream.job().summary["plans"] == 1
    stream.check()


@pytest.mark.parametrize(("key", "when", "number"), POINTS)
def test_a_job_that_is_killed(filled: KafkaStream, key: str, when: str, number: int) -> None:
    """At any of its writes: the next run finishes what it began."""
    with filled.frozen_job(key, when, number):
        pass
    finish(filled)


@SLOW
def test_an_answer_to_the_commit_that_gets_lost(filled: KafkaStream) -> None:
    """The run fails, though its plan is committed: the next one sees that."""
    with filled.frozen_job(DONE, "lost") as job:
        assert job.go_on() == 1
    finish(filled)


@pytest.mark.parametrize(
    "key", [pytest.param(PLAN, marks=SLOW), pytest.param(SLICES, marks=SLOW), META, pytest.param(DONE, marks=SLOW)]
)
def test_a_job_that_wakes_up_when_another_one_is_through(filled: KafkaStream, key: str) -> None:
    """Two runs at once, one of them with a plan that is old by now: twins of blocks at most, and one outcome."""
    with filled.frozen_job(key, "before") as job:
        result = filled.job()
        assert result.ok, result.error
        filled.produce(6)
        assert filled.job().ok
        job.go_on()
    filled.check()
    finish(filled)


@SLOW
@pytest.mark.parametrize("overwrites", [False, True], ids=["as it is", "a commit that overwrites"])
def test_a_parser_that_is_changed_between_two_attempts(stream: KafkaStream, *, overwrites: bool) -> None:
    """The old one's run sleeps; the new one's gives its plan up, plans again and is killed; then the old one goes on.

    Its commit comes too late. If it overwrote what the other run has decided, the messages would be in no block.
    """
    stream.configure_parsed({"format": "json", "time": {"path": "at", "format": "ms"}})
    stream.produce(30, bad=4)
    with stream.frozen_job(META, "after", overwrites=overwrites) as old:
        stream.configure_parsed(
            {"format": "json", "time": {"path": "at", "format": "ms"}, "split": [{"column": "city"}]}
        )
        with stream.frozen_job(r"/0{20}\.1\.json$", "after"):
            old.go_on()
    if overwrites:
        stream.job()
        with pytest.raises(AssertionError, match="lost"):
            stream.check()
    else:
        finish(stream)


@SLOW
@pytest.mark.parametrize("retried", [True, False], ids=["its retry", "the next one"])
@pytest.mark.parametrize(("when", "number"), [("before", 1), ("after", 1), ("after", 3)])
def test_a_backfill_that_is_killed(stream: KafkaStream, when: str, number: int, *, retried: bool) -> None:
    """Before, after, amid its uploads: its retry does the rest, or the next backfill, and each row is there once."""
    times = {"path": "at", "format": "ms"}
    stream.configure_parsed({"format": "json", "time": times, "fields": {"number": "at"}})
    stream.produce(30)
    stream.produce(20, partition=1)
    assert stream.job().ok
    with pytest.raises(AssertionError, match="lost"):
        stream.check()
    stream.configure_parsed({"format": "json", "time": times})

    def plan() -> dict[str, object]:
        found = stream.backfill(offsets=[f"{stream.topic()}:{partition}" for partition in (0, 1)])
        assert found.ok, found.error
        return {"plan_key": found.plan_key, "digest": found.summary["digest"]}

    asked = plan()
    with stream.frozen_job(META, when, number, verb="backfill", **asked):
        pass
    if not retried:
        assert len({message[:3] for message in stream.held()}) == len(stream.held()) == 50
        asked = plan()
    done = stream.backfill(**asked)
    assert done.ok, done.error
    stream.check()


@SLOW
def test_a_topic_that_is_made_again(filled: KafkaStream) -> None:
    """Its offset 0 is another message: what was in blocks stays, what is new comes; a run in between harms nothing."""
    assert filled.job().ok
    filled.delete_topic()
    filled.kafka.create_topic(filled.topic(), 2)
    filled.produce(9)
    finish(filled)
    filled.produce(30)
    with filled.frozen_job(SLICES, "before"):
        pass
    finish(filled)


@SLOW
def test_a_topic_that_is_made_again_while_it_is_read(filled: KafkaStream) -> None:
    """Messages of the new topic at the offsets of the old one's plan do not pass for the old one's.

    What became of the old one's is said, until it is accepted; the new one goes on meanwhile.
    """
    with filled.frozen_job(PLAN, "after", 2) as job:
        filled.kafka.delete_topic(filled.topic())
        filled.kafka.create_topic(filled.topic(), 2)
        filled.produce(60)
        filled.produce(60, partition=1)
        assert job.go_on() == 1
    result = filled.job()
    assert (result.ok, result.summary["rows"]) == (False, 120)
    assert "was deleted, and one of its name was made: offsets 0 to " in result.error
    assert "accept_gap" in result.next_step
    accepted = filled.job(accept_gap=True)
    assert (accepted.ok, accepted.summary["gaps"]) == (True, 2), accepted.error
    finish(filled)


@SLOW
def test_a_broker_that_starts_again(filled: KafkaStream) -> None:
    """While a job runs, and between two."""
    with filled.frozen_job(META, "after") as job:
        filled.kafka.restart()
        job.go_on()
    finish(filled)


@SLOW
def test_a_partition_that_is_added_while_a_job_runs(filled: KafkaStream) -> None:
    """The next run finds it, from its first message on."""
    filled.configure(start="latest")
    assert filled.job().summary["plans"] == 0
    before = filled.committed()
    filled.produce(5)
    with filled.frozen_job(META, "after") as job:
        filled.kafka.add_partitions(filled.topic(), 3)
        filled.produce(8, partition=2)
        assert job.go_on() == 0
    result = filled.job()
    assert (result.ok, result.summary["rows"]) == (True, 8)
    filled.check(lost=before)


@SLOW
def test_messages_that_kafka_has_deleted(filled: KafkaStream) -> None:
    """The run says which, and does the rest; `accept_gap` records it, and then it goes on by itself."""
    assert filled.job().ok
    filled.produce(10)
    end = max(offset for _, partition, offset, _ in filled.committed() if partition == 0)
    filled.deleted = {each for each in filled.committed() if each[1] == 0 and each[2] < 37}
    lost = {each for each in filled.committed() if each[1] == 0 and 37 <= each[2] < end}
    filled.kafka.delete_records(filled.topic(), 0, end)
    filled.produce(5, partition=1)
    result = filled.job()
    assert not result.ok
    assert f"Kafka has deleted offsets 37 to {end - 1} of {filled.topic()}-0" in result.error
    assert "accept_gap" in result.next_step
    assert result.summary["rows"] == 5
    accepted = filled.job(accept_gap=True)
    assert (accepted.ok, accepted.summary["gaps"]) == (True, 1), accepted.error
    filled.check(lost=lost)
    finish(filled)
    assert LostMessagesError.retryable is False
