"""`_SUCCESS`: a day of a topic has one once nothing that may still come belongs to it, and never before."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest
from exports import DAY, HOUR, PREFIX, TODAY, Bench, Kafka, config

from drystone.config.model import StreamConfig
from drystone.errors import KafkaError
from drystone.ingest.export import left as left_module
from drystone.ingest.export import periods
from drystone.ingest.export.left import Left
from drystone.ingest.kafka.log import Offsets, Partition
from drystone.jobs import ExportRequest
from drystone.testing.messages import Message
from drystone.verbs import export

YESTERDAY = f"{PREFIX}/flights/dt=2023-11-13/_SUCCESS"


def message(offset: int, time: int | None) -> list[Message]:
    """Return one message."""
    return [Message(offset, time, b"k", b"v")]


def successes(bench: Bench) -> list[str]:
    """Return which `_SUCCESS` there are."""
    return [key for key in bench.objects() if "_SUCCESS" in key]


def exported(bench: Bench) -> list[str]:
    """Export, without a failure, and return which `_SUCCESS` there are."""
    done = bench.export()
    assert not done.failures
    return successes(bench)


def test_a_day_is_finished_when_nothing_waits_and_it_is_over(bench: Bench) -> None:
    """Its end and the grace (an hour) must have passed: then what comes is younger."""
    bench.ingest(message(5, TODAY + HOUR))
    bench.clock.now = TODAY + DAY + HOUR - 1
    assert exported(bench) == []
    bench.clock.advance(1)
    today = f"{PREFIX}/flights/dt=2023-11-14/_SUCCESS"
    assert exported(bench) == [today]
    assert bench.objects()[today] == b'{"generation": 0}\n'
    assert exported(bench) == [today]


def test_what_waits_in_kafka_keeps_a_day_open(bench: Bench) -> None:
    """Of any partition, one without a plan among them; until it is younger than the day's end and the grace."""
    bench.ingest(message(5, TODAY - HOUR))
    bench.ready()
    for partition in (0, 1):
        bench.kafka.ends["flights", partition] = 9
        bench.kafka.oldest["flights", partition] = TODAY + HOUR - 1
        assert exported(bench) == []
        bench.kafka.oldest["flights", partition] = TODAY + HOUR
    assert exported(bench) == [YESTERDAY]


def test_what_is_ingested_and_not_exported_keeps_a_day_open(bench: Bench) -> None:
    """Whether its blocks are not ready, or its plan has failed; messages without a time belong to no day."""
    bench.config = config(format="text")
    bench.ingest(message(5, TODAY - HOUR))
    bench.ready()
    waiting = bench.ingest(message(7, TODAY - 2 * HOUR), partition=1)
    assert exported(bench) == []
    bench.clock.now = waiting.planned_at + HOUR
    bench.ingest([Message(9, TODAY - HOUR, None, b"two\nlines")])
    bench.ready()
    assert bench.export().failures
    assert successes(bench) == []
    bench.config = config(format="sequence_file")
    bench.ingest(message(20, None))
    assert exported(bench) == [YESTERDAY]


def test_a_topic_that_is_gone_has_nothing_left(bench: Bench) -> None:
    """One of that name that was made again has its own messages; one that is not looked at any more may have any."""
    bench.ingest(message(5, TODAY - HOUR))
    bench.ready()
    bench.kafka = Kafka({"flights": "T9"}, {("flights", 0): 3}, {("flights", 0): TODAY - HOUR})
    assert exported(bench) == []
    bench.config = _looking_at(bench, "trains")
    bench.kafka = Kafka({"trains": "T2"})
    assert exported(bench) == []
    bench.config = _looking_at(bench, "flights|trains")
    assert exported(bench) == [YESTERDAY]


def _looking_at(bench: Bench, topics: str) -> StreamConfig:
    ingest = bench.config.kafka.model_copy(update={"topics": topics})
    return bench.config.model_copy(update={"ingest": ingest})


def test_what_comes_late_is_exported_all_the_same(bench: Bench) -> None:
    """The run says so; the `_SUCCESS` stays as it is."""
    bench.ingest(message(5, TODAY - HOUR))
    bench.ready()
    assert exported(bench) == [YESTERDAY]
    bench.ingest(message(8, TODAY - HOUR))
    bench.ready()
    done = bench.export()
    assert (done.summary["messages"], done.summary["periods_late"], done.failures) == (1, 1, [])
    assert bench.export().summary["periods_late"] == 0, "it is said once"


def test_hours_have_their_own(bench: Bench) -> None:
    """And what is told apart by offset has none; nor has a stream that wants none."""
    bench.config = config(split="hour", grace="0s")
    bench.ingest(message(5, TODAY - 1))
    bench.ready()
    assert exported(bench) == [f"{PREFIX}/flights/dt=2023-11-13/hr=23/_SUCCESS"]
    for other in (config(prefix="b", split="offset"), config(prefix="c", success=None)):
        bench.config = other
        assert not bench.export().failures
    assert len([item for item in bench.plain.list("") if "_SUCCESS" in item.key]) == 1


def test_without_kafka_files_are_written_and_no_period_is_finished(bench: Bench) -> None:
    """The run fails, and may be tried again."""

    @contextlib.contextmanager
    def unreachable() -> Iterator[Left]:
        raise KafkaError("Kafka at 127.0.0.1:1 cannot be reached.")
        yield

    bench.ingest(message(5, TODAY - HOUR))
    bench.ready()
    done = export.run(bench.job(), ExportRequest(), unreachable)
    assert (done.summary["messages"], done.retryable) == (1, True)
    assert "no period was finished: Kafka at" in done.failures[0]
    assert successes(bench) == []
    assert exported(bench) == [YESTERDAY]


def test_another_generation_needs_another_name(bench: Bench) -> None:
    """Under one prefix nobody could tell whose files are all there."""
    bench.ingest(message(5, TODAY - HOUR))
    bench.ready()
    exported(bench)
    bench.kafka.ends.clear()
    bench.config = config(generation=1)
    bench.ingest(message(5, TODAY - HOUR))
    bench.ready()
    (failure,) = bench.export().failures
    assert "of another generation or another program. Give each generation a name of its own" in failure
    bench.config = config(generation=1, success="_SUCCESS_1")
    assert exported(bench) == [YESTERDAY, f"{YESTERDAY}_1"]


def without_grace(patch: pytest.MonkeyPatch) -> None:
    """A period is finished as soon as it is over."""
    patch.setattr(periods, "is_finished", lambda period, oldest, _: period.end <= oldest)


def looks_at_known_partitions_only(patch: pytest.MonkeyPatch) -> None:
    """A partition that has no plan yet counts for nothing."""
    real = Left._waiting

    def planted(self: Left, reached: list[left_module.Reached]) -> dict[Partition, Offsets]:
        known = {(each.topic, each.partition) for each in reached}
        return {place: offsets for place, offsets in real(self, reached).items() if (*place,) in known}

    patch.setattr(Left, "_waiting", planted)


def believes_that_nothing_waits(patch: pytest.MonkeyPatch) -> None:
    """Plans that are not exported yet count for nothing."""
    patch.setattr(export.ExportRun, "_oldest", lambda *_: None)


@pytest.mark.parametrize(
    ("plant", "test"),
    [
        (without_grace, test_a_day_is_finished_when_nothing_waits_and_it_is_over),
        (without_grace, test_what_waits_in_kafka_keeps_a_day_open),
        (looks_at_known_partitions_only, test_what_waits_in_kafka_keeps_a_day_open),
        (believes_that_nothing_waits, test_what_is_ingested_and_not_exported_keeps_a_day_open),
    ],
)
def test_a_planted_early_success_is_found(
    bench: Bench,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    test: Callable[[Bench], None],
) -> None:
    """With this bug in the code, the test above fails."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        test(bench)
