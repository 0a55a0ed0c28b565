"""Each committed message in exactly one live source, none lost, no manual step: whatever happens to the runs.

And a test that cannot fail proves nothing: each bug that is planted here must be noticed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import kafka_lives
import pytest
from kafka_lives import LivesError, live

from drystone import ulids
from drystone.errors import InvariantError
from drystone.ingest.kafka import chain
from drystone.ingest.kafka.chain import Chain, Ground
from drystone.ingest.kafka.plans import Done, Plan
from drystone.verbs import kafka
from drystone.verbs.kafka_partition import Share

LIVES = 200
ENOUGH = {
    "crashes": 100,
    "zombies": 100,
    "lost answers": 30,
    "refusals": 100,
    "parser": 100,
    "partition": 100,
    "tasks that ran twice": 50,
    "runs that failed": 20,
}
"""How often each of these must have happened, or the lives would be too quiet to show anything."""
Plant = Callable[[pytest.MonkeyPatch], None]
PLANTS: list[Plant] = []


@pytest.mark.parametrize("retention", [False, True], ids=["nothing deleted", "retention"])
def test_lives(*, retention: bool) -> None:
    """Hundreds of lives, in which enough of everything happens."""
    tally: Counter[str] = Counter()
    for seed in range(LIVES):
        try:
            tally += live(seed, retention=retention).tally
        except BaseException as error:
            error.add_note(f"seed {seed}, retention {retention}")
            raise
    wanted = ENOUGH | ({"again": 100, "delete": 100, "LostMessagesError": 10} if retention else {})
    assert {name: tally[name] for name, times in wanted.items() if tally[name] < times} == {}


def plant(function: Plant) -> Plant:
    """Register a bug that a life must show."""
    PLANTS.append(function)
    return function


@pytest.mark.parametrize("bug", PLANTS, ids=lambda bug: bug.__name__)
def test_planted_bugs_are_noticed(bug: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """At least one of the lives ends in the error that says so, and for the bug's reason: without it all are well."""
    bug(monkeypatch)
    for seed in range(3 * LIVES):
        try:
            live(seed, retention=seed % 2 == 1)
        except LivesError:
            return
    pytest.fail(f"nobody noticed: {bug.__doc__}")


@plant
def a_commit_that_overwrites(patch: pytest.MonkeyPatch) -> None:
    """The outcome is put, not created: the last one holds."""

    def commit(self: Chain, plan: Plan, done: Done) -> Done:
        self.bucket.put(plan.done_key, done.to_json())
        return done

    patch.setattr(Chain, "commit", commit)


@plant
def a_commit_before_the_last_slice(patch: pytest.MonkeyPatch) -> None:
    """An unfinished plan whose slices are known is committed, whether they are in blocks or not."""
    patch.setattr(Share, "_all_there", lambda *_: True)


@plant
def an_attempt_that_stays_open(patch: pytest.MonkeyPatch) -> None:
    """What was uploaded is retired, and planned again, before the attempt is closed: it can still be committed."""
    real = Chain.give_up

    def give_up(self: Chain, plan: Plan, done: Done, successor: Plan, author: str) -> Done:
        self._retire(plan, done, author)
        chain.create(self.bucket, successor.plan_key, successor)
        return real(self, plan, done, successor, author)

    patch.setattr(Chain, "give_up", give_up)


@plant
def giving_up_without_retiring(patch: pytest.MonkeyPatch) -> None:
    """What was uploaded of an attempt that is given up stays."""
    patch.setattr(Chain, "_retire", lambda *_: None)


@plant
def giving_up_without_empty_slices(patch: pytest.MonkeyPatch) -> None:
    """Where no slices are known nobody is kept from beginning later."""
    real = Chain._retire

    def retire(self: Chain, plan: Plan, done: Done, author: str) -> None:
        if self.slices(plan) is not None:
            real(self, plan, done, author)

    patch.setattr(Chain, "_retire", retire)


@plant
def a_source_without_its_attempt(patch: pytest.MonkeyPatch) -> None:
    """The next attempt has the sources that were retired with the last one."""
    real = Plan.source
    always = {"attempt": 0, "planned_at": 1}
    patch.setattr(Plan, "source", lambda self, *parts: real(self.model_copy(update=always), *parts))


@plant
def sources_of_their_own_time(patch: pytest.MonkeyPatch) -> None:
    """A source is named by who builds it: every retry makes others."""
    real = Plan.source

    def source(self: Plan, *parts: Any) -> str:
        return ulids.derive(1, real(self, *parts), str(next(counter)))

    counter = iter(range(1 << 60))
    patch.setattr(Plan, "source", source)


@plant
def chains_without_a_root(patch: pytest.MonkeyPatch) -> None:
    """Every run begins a chain where it finds the log: that moves, and so do the chains."""
    patch.setattr(Ground, "root", lambda _, mine: mine)


@plant
def offsets_for_messages(patch: pytest.MonkeyPatch) -> None:
    """There must be as many messages as there are offsets."""
    real = Share.commit

    def commit(self: Share, plan: Plan, slices: Any) -> None:
        if slices.messages != plan.end - plan.start:
            raise InvariantError("messages are missing.")
        real(self, plan, slices)

    patch.setattr(Share, "commit", commit)


@plant
def another_topic_of_the_same_name(patch: pytest.MonkeyPatch) -> None:
    """Nobody makes sure that it was still the same topic that was read."""
    patch.setattr(kafka_lives.Task, "confirm", lambda *_: None)


@plant
def a_topic_that_is_gone_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Only topics that Kafka shows are looked after."""
    patch.setattr(kafka, "left_behind", lambda *_: iter(()))
