"""A partition's chain by itself: where it stands after each step, and what runs that come too late can do to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from buckets import Spy, blind_to

from drystone.block import edits, keys
from drystone.bucket import Bucket, MemoryBucket
from drystone.errors import GivenUpError, InputError, ObjectMissingError
from drystone.ingest.kafka.chain import Chain, GivenUp, Ground, Next, Unfinished
from drystone.ingest.kafka.plans import Done, Plan, Root, Slice, Slices
from drystone.ingest.kafka.settle import settle_slices

ROOT = Root(topic="flights", topic_id="uuid", starts={0: 5}, planned_at=1)


@pytest.fixture
def bucket() -> Bucket:
    """An empty one."""
    return MemoryBucket(f"chain-{uuid4().hex}", lambda: 1)


@pytest.fixture
def chain(bucket: Bucket) -> Chain:
    """The chain of partition 0, which begins at offset 5."""
    return Ground(bucket, "main", 0).chain(ROOT, 0)


def plan(start: int, end: int, attempt: int = 0, **other: Any) -> Plan:
    """Return a plan of the chain."""
    place = {"stream": "main", "generation": 0, "topic": "flights", "topic_id": "uuid", "partition": 0}
    fields = place | {"start": start, "end": end, "attempt": attempt, "planned_at": 1000, "parser": "p"}
    return Plan.model_validate(fields | {"reason": "size"} | other)


def slices(of: Plan) -> Slices:
    """Return one slice in the stream and one among the dead letters."""
    found = [
        Slice(
            stream=stream,
            chunk_start=0,
            granularity="day",
            source=of.source(stream, "day", 0, ""),
            rows=1,
            first_offset=of.start,
            last_offset=of.start,
        )
        for stream in ("main", "dead")
    ]
    return Slices(attempt=of.attempt, slices=tuple(found), messages=2, bad=1)


def committed(of: Plan, run: str = "a") -> Done:
    """Return that all of it is in blocks."""
    return Done(outcome="committed", attempt=of.attempt, run=run, time=2)


def abandoned(of: Plan, run: str = "b") -> Done:
    """Return that it was given up."""
    return Done(outcome="abandoned", attempt=of.attempt, run=run, time=3, reason="the parser has changed")


def retired(bucket: Bucket) -> set[str]:
    """Return every source that an edit retires, in both streams."""
    found: set[str] = set()
    for stream in ("main", "dead"):
        for item in bucket.list(keys.edits(stream)):
            edit = edits.parse(bucket.get(item.key), item.key)
            found.update(getattr(edit, "sources", ()))
    return found


def listed(bucket: Bucket) -> dict[str, bytes]:
    """Return everything in the bucket."""
    return {item.key: bucket.get(item.key) for item in bucket.list("")}


def test_a_chain_stands_where_its_last_committed_plan_ends(chain: Chain) -> None:
    """From the root on, plan by plan; one that nobody has finished is where it stands."""
    assert chain.position() == Next(5)
    for start, end in ((5, 10), (10, 11), (11, 40)):
        made = chain.plan(plan(start, end))
        assert chain.position() == Unfinished(made)
        assert chain.commit(made, committed(made)) == committed(made)
        assert chain.position() == Next(end)


def test_a_partition_that_the_root_does_not_know_begins_at_its_first_message(bucket: Bucket) -> None:
    """It was added later."""
    assert Ground(bucket, "main", 0).chain(ROOT, 3).position() == Next(0)


def test_of_two_roots_the_first_holds(bucket: Bucket) -> None:
    """A run with a later sight of the log does not begin the chains somewhere else; another generation does."""
    ground = Ground(bucket, "main", 0)
    assert ground.known_root("uuid") is None
    assert ground.root(ROOT) == ROOT
    assert ground.root(ROOT.model_copy(update={"starts": {0: 90}})) == ROOT
    other = ROOT.model_copy(update={"starts": {0: 90}})
    assert Ground(bucket, "main", 1).root(other) == other


def test_a_chain_cannot_fork(chain: Chain) -> None:
    """Of two runs that plan the same offsets to other ends both go by the plan of the first."""
    first = chain.plan(plan(5, 10))
    assert chain.plan(plan(5, 30)) == first
    chain.commit(first, committed(first))
    assert chain.plan(plan(5, 30)) == first, "also when it is long done"
    assert chain.position() == Next(10)


_STEPS: dict[str, Callable[[Chain, Plan], object]] = {
    ".json": lambda chain, _: chain.plan(plan(5, 30)),
    ".slices.json": lambda chain, made: chain.nothing(made),
    ".done": lambda chain, made: chain.give_up(made, abandoned(made), plan(5, 10, 1), "b"),
}


@pytest.mark.parametrize("hidden", _STEPS)
def test_a_run_that_does_not_see_an_object_does_not_go_on_with_its_own(bucket: Bucket, hidden: str) -> None:
    """It learns that there is one when it cannot create it, and stops: the next run sees it."""
    whole = Ground(bucket, "main", 0).chain(ROOT, 0)
    made = whole.plan(plan(5, 10))
    whole.nothing(made)
    whole.commit(made, committed(made))
    before = listed(bucket)
    blind = Ground(Spy(bucket, blind_to(f"{made.key}{hidden}")), "main", 0).chain(ROOT, 0)  # type: ignore[arg-type]
    with pytest.raises(ObjectMissingError):
        _STEPS[hidden](blind, made)
    assert listed(bucket) == before


@pytest.mark.parametrize("uploaded", [False, True], ids=["nothing uploaded", "slices known"])
def test_a_plan_that_is_given_up_cannot_come_back(chain: Chain, bucket: Bucket, *, uploaded: bool) -> None:
    """The run that slept over it neither commits nor begins to upload; what it has uploaded is retired."""
    old, new = chain.plan(plan(5, 10)), plan(5, 12, 1)
    if uploaded:
        settle_slices(bucket, old, slices(old))
    assert chain.give_up(old, abandoned(old), new, "b").outcome == "abandoned"
    assert chain.position() == Unfinished(new)
    assert chain.commit(old, committed(old)) == abandoned(old)
    assert chain.position() == Unfinished(new)
    if uploaded:
        assert retired(bucket) == {each.source for each in slices(old).slices}
    else:
        assert retired(bucket) == set()
        with pytest.raises(GivenUpError):
            settle_slices(bucket, old, slices(old))
    assert {each.source for each in slices(old).slices}.isdisjoint(each.source for each in slices(new).slices)
    chain.commit(new, committed(new))
    assert chain.position() == Next(12)


def test_a_plan_that_is_committed_cannot_be_given_up(chain: Chain, bucket: Bucket) -> None:
    """Nothing of it is retired, and nothing is planned in its place."""
    made = chain.plan(plan(5, 10))
    settle_slices(bucket, made, slices(made))
    chain.commit(made, committed(made))
    before = listed(bucket)
    assert chain.give_up(made, abandoned(made), plan(5, 10, 1), "b") == committed(made)
    assert listed(bucket) == before
    assert chain.position() == Next(10)


def test_giving_up_is_finished_by_whoever_finds_it_half_done(chain: Chain, bucket: Bucket) -> None:
    """A run that dies after the `.done`: the next one retires and plans; once more changes nothing."""
    made = chain.plan(plan(5, 10))
    settle_slices(bucket, made, slices(made))
    bucket.create(made.done_key, abandoned(made, "dead").to_json())
    assert chain.position() == GivenUp(made)
    assert chain.give_up(made, abandoned(made), plan(5, 10, 1), "b") == abandoned(made, "dead")
    assert retired(bucket) == {each.source for each in slices(made).slices}
    after = listed(bucket)
    assert chain.give_up(made, abandoned(made, "late"), plan(5, 99, 1), "c") == abandoned(made, "dead")
    assert listed(bucket) == after
    assert chain.position() == Unfinished(plan(5, 10, 1))


def test_attempts_are_walked_to_the_last(chain: Chain) -> None:
    """One given up after the other: the last one decides how far its offsets are done."""
    for attempt in range(3):
        made = chain.plan(plan(5, 10 + attempt, attempt))
        assert chain.position() == Unfinished(made)
        chain.give_up(made, abandoned(made), plan(5, 11 + attempt, attempt + 1), "b")
    last = plan(5, 13, 3)
    assert chain.position() == Unfinished(last)
    chain.commit(last, committed(last))
    assert chain.position() == Next(13)


def test_a_gap_is_passed_over_like_any_plan(chain: Chain) -> None:
    """It comes to nothing, and the chain goes on behind it."""
    gap = chain.plan(plan(5, 50, gap=True))
    assert chain.nothing(gap).slices == ()
    chain.commit(gap, committed(gap))
    assert chain.position() == Next(50)


def test_a_walk_begins_at_the_head_which_only_goes_on(chain: Chain, bucket: Bucket) -> None:
    """What lies before it is not looked at again; a run that stands further back does not take it back."""
    for start, end in ((5, 10), (10, 20)):
        made = chain.plan(plan(start, end))
        chain.commit(made, committed(made))
    chain.keep_head(20)
    chain.keep_head(10)
    bucket.delete([item.key for item in bucket.list("main/.ingest/") if not item.key.endswith("head.json")])
    assert chain.position() == Next(20)


@pytest.mark.parametrize("suffix", [".json", ".done"])
def test_an_object_that_cannot_be_read_stops_its_chain(chain: Chain, bucket: Bucket, suffix: str) -> None:
    """With its key: going on without it could double what it stands for."""
    made = chain.plan(plan(5, 10))
    chain.commit(made, committed(made))
    bucket.put(f"{made.key}{suffix}", b"{}")
    with pytest.raises(InputError, match=f"{made.key}{suffix} cannot be read"):
        chain.position()
