"""What an ingest from Kafka tells: the dry run, a lag that is too large, the report, and whose error counts."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from buckets import Spy, blind_to
from kafka_lives import MAIN, MINUTE, check
from kafka_runs import TOPIC, KilledError, Runs

from drystone.block import keys
from drystone.errors import InputError, KafkaError, LagError, LostMessagesError
from drystone.ingest.kafka.chain import Next
from drystone.ingest.kafka.log import Partition

OTHER = "flights.b"
HOUR = 60 * MINUTE


def content(runs: Runs) -> dict[str, bytes]:
    """Return everything in the bucket."""
    return {item.key: runs.bucket.get(item.key) for item in runs.bucket.list("")}


def lines(report: list[str], place: str) -> list[str]:
    """Return the rows of the report's table for a partition."""
    return [line for line in report if line.startswith(f"| {place} |")]


def test_a_dry_run_tells_what_would_be_done_first_and_does_nothing() -> None:
    """Of what waits and is due, of what waits and is not, and of what another run left."""
    runs = Runs()
    runs.log.produce(TOPIC, 0, 3)
    assert content(runs) == {}
    outcome = runs.run(dry_run=True)
    assert (outcome.summary, outcome.verdict) == ({"partitions": 1, "plans": 1}, None)
    assert lines(outcome.report, f"{TOPIC}-0") == [f"| {TOPIC}-0 | 0 | 3 | forced: 3 offsets |"]
    assert content(runs) == {}
    assert (runs.read, runs.log.group) == ([], {})
    quiet = runs.run(dry_run=True, force=False)
    assert quiet.summary["plans"] == 0
    assert lines(quiet.report, f"{TOPIC}-0") == [f"| {TOPIC}-0 | 0 | 3 | nothing is due |"]
    runs.dies = lambda _: "before"
    with pytest.raises(KilledError):
        runs.run()
    runs.log.produce(TOPIC, 0, 4)
    before = content(runs)
    unfinished = runs.run(dry_run=True, force=False)
    assert lines(unfinished.report, f"{TOPIC}-0") == [f"| {TOPIC}-0 | 0 | 7 | forced: 3 offsets |"]
    assert content(runs) == before


def test_a_dry_run_fails_for_what_the_run_would_fail_for() -> None:
    """Lost messages are said, and nothing is recorded of them."""
    runs = Runs()
    runs.log.produce(TOPIC, 0, 3)
    assert runs.run().verdict is None
    runs.log.produce(TOPIC, 0, 5)
    runs.log.delete_before(TOPIC, 0, 6)
    before = content(runs)
    outcome = runs.run(dry_run=True)
    assert isinstance(outcome.verdict, LostMessagesError)
    assert "offsets 3 to 5 of flights.a-0, which are in no plan yet" in str(outcome.verdict)
    assert content(runs) == before


def test_a_run_fails_when_messages_wait_too_long_and_does_what_it_can_first() -> None:
    """Those that are due are uploaded; one that is left, for it is not due, and older than `max_lag` is named."""
    runs = Runs(rules={"max_age": 3 * HOUR, "max_bytes": 10_000, "max_lag": HOUR})
    runs.log.create(OTHER, 1)
    runs.log.produce(TOPIC, 0, 100)
    runs.log.produce(OTHER, 0, 2)
    runs.now += HOUR // 2
    outcome = runs.run(force=False)
    assert (outcome.verdict, outcome.summary["rows"], outcome.summary["lag_offsets"]) == (None, 100, 2)
    assert outcome.summary["lag_ms"] == HOUR // 2 + MINUTE
    runs.log.produce(TOPIC, 0, 100)
    runs.now += HOUR // 2
    late = runs.run(force=False)
    assert isinstance(late.verdict, LagError)
    assert "a message of flights.b-0 waits since 62min, and max_lag is 1h" in str(late.verdict)
    assert late.summary["rows"] == 100
    assert runs.run(force=True).verdict is None
    check(runs.bucket, runs.log, {})


def test_lag_is_none_where_nothing_waits() -> None:
    """However long ago the last message was written."""
    runs = Runs(rules={"max_lag": HOUR})
    runs.log.produce(TOPIC, 0, 3)
    runs.now += 5 * HOUR
    outcome = runs.run()
    assert (outcome.verdict, outcome.summary["lag_ms"], outcome.summary["lag_offsets"]) == (None, 0, 0)


def test_the_report_has_a_line_for_each_partition_and_event() -> None:
    """From where to where, rows, dead letters, what waits; what was given up and recorded as lost."""
    runs = Runs(parser="p1", dies=lambda _: "before")
    runs.log.create(OTHER, 1)
    runs.log.produce(TOPIC, 0, 12, gap=1)
    with pytest.raises(KilledError):
        runs.run()
    runs.dies = lambda _: None
    runs.parser = "p0"
    runs.log.produce(OTHER, 0, 4)
    outcome = runs.run()
    # The parser's change gives up the plan of 7 messages; its model makes no dead letters.
    assert outcome.report[0].startswith("| partition | from | to | rows | dead letters |")
    assert lines(outcome.report, f"{TOPIC}-0") == [f"| {TOPIC}-0 | 0 | 13 | 12 | 0 | 0 | 0s |"]
    assert lines(outcome.report, f"{OTHER}-0") == [f"| {OTHER}-0 | 0 | 4 | 4 | 0 | 0 | 0s |"]
    assert [line for line in outcome.report if line.startswith("* gave up")] == [f"* gave up {TOPIC}-0 [0, 7)"]
    assert (outcome.summary["given_up"], outcome.summary["rows"], outcome.summary["gaps"]) == (1, 16, 0)
    assert len(outcome.blocks) == outcome.summary["blocks"]
    runs.parser = "p1"
    runs.log.produce(TOPIC, 0, 12)
    bad = runs.run()
    assert bad.summary["dead_letters"] == sum(offset % 6 == 0 for offset in range(13, 25))
    assert set(bad.other_blocks) == {"dead"}
    assert runs.log.group == {Partition(TOPIC, 0): 25, Partition(OTHER, 0): 4}


def test_of_several_errors_the_one_that_needs_a_person_counts() -> None:
    """A run that only had to be tried again is no reason to hide it; the report names them all."""
    runs = Runs()
    runs.log.create(OTHER, 1)
    for topic in (TOPIC, OTHER):
        runs.log.produce(topic, 0, 3)
    assert runs.run().verdict is None
    for topic in (TOPIC, OTHER):
        runs.log.produce(topic, 0, 3)
    runs.log.delete_before(OTHER, 0, 5)
    # Another run has made a plan that this one's client cannot see: it leaves the partition to it.
    hidden = keys.kafka_plan(MAIN, 0, runs.log.ids[TOPIC], 0, 3) + ".json"
    runs.bucket.create(hidden, b"{}")
    runs.bucket = Spy(runs.bucket, blind_to(hidden))  # type: ignore[assignment]
    outcome = runs.run()
    assert isinstance(outcome.verdict, LostMessagesError)
    assert not outcome.verdict.retryable
    assert outcome.verdict.message.endswith("1 more partitions failed, too; the report names them.")
    failed = [line for line in outcome.report if " failed: " in line]
    assert [line.split()[1] for line in failed] == [f"{TOPIC}-0", f"{OTHER}-0"]


def test_what_was_uploaded_is_told_though_kafka_takes_no_note() -> None:
    """The group's offset is advisory: that it could not be moved fails the run at last, and undoes nothing."""
    runs = Runs()
    runs.log.produce(TOPIC, 0, 3)

    def refuse(offsets: Mapping[Partition, int]) -> None:
        raise KafkaError(f"no right to move {len(offsets)} offsets.")

    runs.log.commit = refuse  # type: ignore[method-assign]
    outcome = runs.run()
    assert isinstance(outcome.verdict, KafkaError)
    assert "* notes were not left: no right to move 1 offsets." in outcome.report
    assert outcome.summary["rows"] == 3
    assert runs.chain(runs.log.ids[TOPIC]).position() == Next(3)
    runs.log.produce(TOPIC, 0, 3)
    runs.log.delete_before(TOPIC, 0, 5)
    assert isinstance(runs.run().verdict, InputError), "what is wrong with a partition comes first"


def test_a_loss_that_is_accepted_is_told() -> None:
    """As an event, and counted; the partition goes on behind it."""
    runs = Runs()
    runs.log.produce(TOPIC, 0, 3)
    assert runs.run().verdict is None
    runs.log.produce(TOPIC, 0, 5)
    runs.log.delete_before(TOPIC, 0, 6)
    outcome = runs.run(accept_gap=True)
    assert (outcome.verdict, outcome.summary["gaps"], outcome.summary["rows"]) == (None, 1, 2)
    (told,) = [line for line in outcome.report if line.startswith("* recorded as lost")]
    assert told.startswith(f"* recorded as lost: {TOPIC}-0 [3, 6): Kafka has deleted offsets 3 to 5 of {TOPIC}-0")
    check(runs.bucket, runs.log, {})
