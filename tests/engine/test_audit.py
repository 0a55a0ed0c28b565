"""What is kept about a stream's life: the audit log for good, plans, results and journal for a while."""

from __future__ import annotations

from dataclasses import replace

import pytest
from buckets import objects

from drystone import ulids
from drystone.block import keys
from drystone.bucket import MemoryBucket
from drystone.engine import audit
from drystone.engine.audit import Entry
from drystone.engine.housekeeping import KEPT_MS, tidy
from drystone.errors import UnreadableBlockError
from drystone.testing.streams import ManualClock

STREAM = "events"
NOW = 1_700_000_000_000


@pytest.fixture
def clock() -> ManualClock:
    """A clock that stands still."""
    return ManualClock(NOW)


@pytest.fixture
def bucket(clock: ManualClock, request: pytest.FixtureRequest) -> MemoryBucket:
    """An empty bucket."""
    return MemoryBucket(request.node.name, clock)


def entry(what: str, block: str, when: int) -> Entry:
    """Return an entry."""
    return Entry(what, block, 'because of "this"\nand that', "run 1", when)


def test_the_log_gives_back_what_was_written(bucket: MemoryBucket) -> None:
    """Entries come back as they were, in the order of their times; nothing that is there is ever changed."""
    first = [entry("upload", "A", NOW), entry("upload", "B", NOW)]
    audit.append(bucket, STREAM, first, NOW)
    before = objects(bucket)
    audit.append(bucket, STREAM, [entry("delete", "A", NOW + 1)], NOW + 1)
    assert list(audit.read(bucket, STREAM)) == [*first, entry("delete", "A", NOW + 1)]
    assert before.items() <= objects(bucket).items()
    assert audit.uploaded(bucket, STREAM) == {"A", "B"}, "also what was deleted was whole once"


def test_no_entries_write_nothing(bucket: MemoryBucket) -> None:
    """A run that did nothing leaves no object."""
    audit.append(bucket, STREAM, [], NOW)
    assert objects(bucket) == {}
    assert list(audit.read(bucket, STREAM)) == []


@pytest.mark.parametrize("raw", [b"{", b'{"what": "upload"}', b"[]"])
def test_a_log_that_cannot_be_read_is_named(bucket: MemoryBucket, raw: bytes) -> None:
    """What is no log entry is an error that names the object, and not a block that was never whole."""
    key = f"{keys.audit(STREAM)}{ulids.new(NOW)}.jsonl"
    bucket.put(key, raw)
    with pytest.raises(UnreadableBlockError, match=key):
        audit.uploaded(bucket, STREAM)


def test_old_plans_results_and_journals_go(bucket: MemoryBucket, clock: ManualClock) -> None:
    """What no run of the last 30 days wrote goes; blocks, edits, ingest plans, schemas and the audit log stay."""
    block = ulids.new(NOW)
    going = [keys.plans(STREAM), keys.reports(STREAM), keys.journal(STREAM)]
    kept = [
        keys.audit(STREAM),
        keys.edits(STREAM),
        keys.file_plans(STREAM, 0),
        f"{STREAM}/.schemas/",
        f"{STREAM}/{block}/",
    ]
    for prefix in [*going, *kept]:
        bucket.put(f"{prefix}old.json", b"x")
    clock.advance(KEPT_MS)
    for prefix in [*going, *kept]:
        bucket.put(f"{prefix}young.json", b"x")
    assert tidy(bucket, STREAM, clock.now) == 0, "exactly 30 days old"
    assert tidy(bucket, STREAM, clock.now + 1) == 3
    assert objects(bucket).keys() == {
        *(f"{prefix}{age}.json" for prefix in kept for age in ("old", "young")),
        *(f"{prefix}young.json" for prefix in going),
    }


def test_an_action_is_shown_with_what_became_of_it(bucket: MemoryBucket) -> None:
    """What was intended and then done, left or failed is one action; what nobody closed stays intended."""
    intended = [replace(entry("delete", name, NOW), outcome="intended") for name in "ABCD"]
    audit.append(bucket, STREAM, intended, NOW)
    outcomes: dict[str, tuple[audit.Outcome, str]] = {"A": ("done", ""), "B": ("left", "held"), "C": ("failed", "x")}
    audit.conclude(bucket, STREAM, intended, outcomes, NOW + 5)
    found = [(each.block, each.outcome, each.note, each.when) for each in audit.actions(bucket, STREAM)]
    assert found == [
        ("A", "done", "", NOW),
        ("B", "left", "held", NOW),
        ("C", "failed", "x", NOW),
        ("D", "intended", "", NOW),
    ]


def test_the_same_action_again_is_another_one(bucket: MemoryBucket) -> None:
    """A retry of a run that died has lines of its own, and closes none but those."""
    for moment in (NOW, NOW + 10):
        audit.append(bucket, STREAM, [replace(entry("delete", "A", moment), outcome="intended")], moment)
    audit.conclude(bucket, STREAM, [entry("delete", "A", NOW + 10)], {"A": ("done", "")}, NOW + 11)
    audit.append(bucket, STREAM, [entry("delete", "A", NOW + 20)], NOW + 20)
    assert [(each.when, each.outcome) for each in audit.actions(bucket, STREAM)] == [
        (NOW, "intended"),
        (NOW + 10, "done"),
        (NOW + 20, "done"),
    ]


def test_what_a_removal_rests_on_is_known_as_once_whole(bucket: MemoryBucket) -> None:
    """A block that justifies a deletion is known from its line on, even if the line of its own upload was lost."""
    audit.append(bucket, STREAM, [replace(entry("mark", "A", NOW), outcome="intended", needs=("F", "G"))], NOW)
    assert audit.uploaded(bucket, STREAM) == {"F", "G"}
