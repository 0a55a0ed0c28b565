"""A topic that is gone for good while a plan of it is unfinished: said in each run, until a person decides."""

from __future__ import annotations

import pytest
from kafka_lives import MAIN, check
from kafka_runs import TOPIC, KilledError, Runs

from drystone.engine import audit
from drystone.errors import LostMessagesError, UsageError
from drystone.ingest.kafka.chain import Next

OTHER = "flights.b"


@pytest.fixture
def runs() -> Runs:
    """A plan of three messages that a run died of before it was committed, and another topic."""
    found = Runs()
    found.log.create(OTHER, 1)
    found.log.produce(TOPIC, 0, 3)
    found.dies = lambda _: "before"
    with pytest.raises(KilledError):
        found.run()
    found.dies = lambda _: None
    return found


def _is_said(runs: Runs, why: str, **asked: bool) -> None:
    outcome = runs.run(**asked)
    assert isinstance(outcome.verdict, LostMessagesError)
    assert not outcome.verdict.retryable
    what = f"{why}: offsets 0 to 2 of {TOPIC}-0, of the unfinished plan {TOPIC}-0 [0, 3), cannot be read."
    assert str(outcome.verdict).startswith(what)
    assert "or run once with accept_gap" in outcome.verdict.next_step
    said = [line for line in outcome.report if "cannot be read" in line]
    assert len(said) == 1


def _is_over(runs: Runs, topic_id: str) -> None:
    """After one run that accepts the loss it is recorded, and nothing is said any more; all else is right."""
    outcome = runs.run(accept_gap=True)
    assert (outcome.verdict, outcome.summary["gaps"]) == (None, 1)
    assert runs.chain(topic_id).position() == Next(3)
    (lost,) = [entry for entry in audit.actions(runs.bucket, MAIN) if entry.what == "lose"]
    assert (lost.block, "cannot be read" in lost.why) == (f"{TOPIC}-0 [0, 3), attempt 1", True)
    check(runs.bucket, runs.log, {})


def test_a_deleted_topic_with_an_unfinished_plan_is_said_until_it_is_accepted(runs: Runs) -> None:
    """With what, where, and what to do; each time, in a dry run too; and the other topic goes on all the while."""
    topic_id = runs.log.ids[TOPIC]
    runs.log.delete(TOPIC)
    why = f"topic {TOPIC} with UUID {topic_id} was deleted, or its client may not see it any more"
    for number in (1, 2):
        runs.log.produce(OTHER, 0, 5)
        _is_said(runs, why)
        assert runs.log.group == {(OTHER, 0): 5 * number}
    _is_said(runs, why, dry_run=True)
    assert runs.read == [f"{OTHER}-0 [0, 5)", f"{OTHER}-0 [5, 10)"]
    _is_over(runs, topic_id)
    assert runs.run().verdict is None
    assert f"{TOPIC}-0" not in "\n".join(runs.run().report)


def test_a_topic_that_was_made_again_does_not_hide_the_plan_of_the_old_one(runs: Runs) -> None:
    """Both have the same name: the new one is read, and its offset is the group's."""
    topic_id = runs.log.ids[TOPIC]
    runs.log.create(TOPIC, 1)
    runs.log.produce(TOPIC, 0, 2)
    _is_said(runs, f"topic {TOPIC} with UUID {topic_id} was deleted, and one of its name was made")
    assert runs.log.group[TOPIC, 0] == 2
    _is_over(runs, topic_id)
    assert runs.log.group[TOPIC, 0] == 2


def test_a_topic_that_the_pattern_does_not_fit_any_more_comes_back_with_it(runs: Runs) -> None:
    """It is there: so the other way out is to let the pattern fit it again."""
    runs.rules = {"topics": OTHER.replace(".", r"\.")}
    _is_said(runs, f"ingest.topics does not fit topic {TOPIC} with UUID {runs.log.ids[TOPIC]} any more")
    runs.rules = {}
    assert runs.run().verdict is None
    check(runs.bucket, runs.log, {})


def test_what_is_all_in_blocks_is_committed_without_the_topic() -> None:
    """Only the `.done` was missing: nothing is lost, and nobody is asked."""
    runs = Runs(dies=lambda _: "after")
    runs.log.produce(TOPIC, 0, 3)
    with pytest.raises(KilledError):
        runs.run()
    topic_id = runs.log.ids[TOPIC]
    runs.log.delete(TOPIC)
    assert runs.run(dry_run=True).verdict is None
    outcome = runs.run()
    assert (outcome.verdict, outcome.summary["rows"], outcome.summary["gaps"]) == (None, 3, 0)
    assert runs.chain(topic_id).position() == Next(3)


def test_the_only_topic_may_be_the_one_that_is_gone(runs: Runs) -> None:
    """That no topic is left is said when nothing else is wrong."""
    topic_id = runs.log.ids[TOPIC]
    runs.log.delete(OTHER)
    runs.log.delete(TOPIC)
    _is_said(runs, f"topic {TOPIC} with UUID {topic_id} was deleted, or its client may not see it any more")
    _is_over(runs, topic_id)
    with pytest.raises(UsageError, match="no topic matches"):
        runs.run()


def test_a_plan_of_a_gone_topic_that_cannot_be_read_stops_no_other(runs: Runs) -> None:
    """Its object is broken: the run says so, and does the rest."""
    (key,) = [item.key for item in runs.bucket.list(f"{MAIN}/.ingest/") if item.key.endswith(f"{0:020d}.json")]
    runs.bucket.put(key, b"{")
    runs.log.delete(TOPIC)
    runs.log.produce(OTHER, 0, 5)
    outcome = runs.run()
    assert f"{key} cannot be read" in str(outcome.verdict)
    assert (outcome.summary["rows"], runs.read) == (5, [f"{OTHER}-0 [0, 5)"])
