"""`drystone retain`, `retire`, `erase`, `hold`, `unmark`, `audit`: what is asked for is shown, done once, logged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from lakes import CONFIG, STREAM, Lake, make_lake, rows, values

from drystone.block import keys
from drystone.block.marks import DELETION_MARK
from drystone.bucket import Bucket
from drystone.engine import audit
from drystone.errors import BucketError
from drystone.plan.model import Plan
from drystone.reader import scan
from drystone.testing.streams import source_id, with_source

REASON = ("--reason", "request 17", "--by", "ann")
OSLO = ("erase", "rows", STREAM, "--where", "city=Oslo", "--where", "count>=1000", *REASON)


@pytest.fixture(scope="module")
def lake_once(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """The original of `lake`."""
    lake = make_lake(tmp_path_factory.mktemp("lake"))
    for number, name in enumerate("abcd"):
        lake.ingest(name, rows(number))
    lake.merge("f", "a", "b")
    lake.config_file.write_text(CONFIG + "    retention: {raw: 30d}\n")
    return lake


@pytest.fixture
def lake(lake_once: Lake, tmp_path: Path) -> Lake:
    """Blocks `a` to `d` of one day, of which `f` covers `a` and `b`."""
    return lake_once.copy(tmp_path)


def read(lake: Lake) -> set[tuple[Any, ...]]:
    """Return what a reader sees."""
    return {(row["city"], row["count"]) for batch in scan(lake.bucket, STREAM) for row in batch.to_pylist()}


def everything(lake: Lake) -> dict[str, int]:
    """Return every object of the bucket with its time."""
    return {item.key: item.modified for item in lake.bucket.list("")}


def asked(lake: Lake) -> dict[str, tuple[object, ...]]:
    """Return a command for each verb, by its name."""
    return {
        "erase": OSLO,
        "retire": ("retire", STREAM, "--block", lake.ulid("c"), *REASON),
        "retain": ("retain", STREAM),
        "hold": ("hold", "create", STREAM, "fix", "--for", "2h", "--block", lake.ulid("c"), *REASON),
        "unmark": ("unmark", STREAM, lake.ulid("a"), *REASON),
    }


VERBS = ("erase", "retire", "retain", "hold", "unmark")


@pytest.mark.parametrize("verb", VERBS)
def test_a_dry_run_shows_the_plan_and_changes_nothing(lake: Lake, verb: str) -> None:
    """With --dry-run the very plan is printed that is then carried out, and no object is written or touched."""
    lake.mark("a")
    before = everything(lake)
    dry = lake.drystone(*asked(lake)[verb], "--dry-run", "--json").json
    assert everything(lake) == before
    real = lake.drystone(*asked(lake)[verb], "--json").json
    assert (dry["dry_run"], dry["done"]) == (True, [])
    assert len(real["done"]) == len(Plan.model_validate(real["plan"]).actions) > 0
    for plan in (dry["plan"], real["plan"]):
        for name in ("id", "created", "expires"):
            del plan[name]
        for each in plan["edits"]:
            del each["edit"]["time"]
        for each in plan["holds"]:
            del each["hold"]["created"], each["hold"]["expires"]
    assert dry["plan"] == real["plan"]


@pytest.mark.parametrize("verb", VERBS)
def test_the_same_request_again_changes_nothing(lake: Lake, verb: str) -> None:
    """A request that was answered has nothing left to do: no second edit, hold or line in the log."""
    lake.mark("a")
    lake.drystone(*asked(lake)[verb])
    before = everything(lake)
    again = lake.drystone(*asked(lake)[verb])
    assert (again.code, everything(lake)) == (0, before)
    assert "There is nothing to do." in again.out


def test_erased_rows_are_gone_at_once(lake: Lake) -> None:
    """Exactly the rows that match are counted in the plan, and left out by readers from then on."""
    matching = {row for row in read(lake) if row[0] == "Oslo" and row[1] >= 1000}
    kept = read(lake) - matching
    plan = Plan.model_validate(lake.drystone(*OSLO, "--json").json["plan"])
    (action,) = plan.edits
    assert (action.rows, action.counted) == (len(matching), True)
    assert {ulid for each in action.taken for ulid in each.blocks} == {lake.ulid(name) for name in "fcd"}
    assert read(lake) == kept


def test_rows_that_came_later_need_another_key(lake: Lake) -> None:
    """The same request does not take what was planned since; with a key it does, and makes a second edit."""
    lake.drystone(*OSLO)
    later = with_source(rows(7), source_id(lake.clock.now + 3 * 3_600_000, "later"))
    lake.upload("e", later)
    assert ("Oslo", 7002) in read(lake)
    assert "a request with another reason or key" in lake.drystone(*OSLO).out
    assert lake.drystone(*OSLO, "--key", "2", "--dry-run", "--json").json["plan"]["edits"]


def test_an_erasure_need_not_wait_for_the_first_block(tmp_path: Path) -> None:
    """Rows of blocks that nobody reads yet can be erased, and a condition on them is checked; without any it cannot."""
    lake = make_lake(tmp_path)
    assert "stream events has no rows yet" in lake.drystone(*OSLO).err
    lake.clock.advance(2 * 3_600_000)
    lake.ingest("a", rows(0))
    assert lake.drystone("erase", "rows", STREAM, "--where", "town=Oslo", *REASON).code == 2
    assert lake.drystone(*OSLO).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--where", "town=Oslo"], "there is no column town. There are time, city, count, ratio."),
        (["--where", "count=many"], "the value 'many' cannot be compared with column count (int32)"),
        (["--where", "Oslo"], "'Oslo' is no condition. Write COLUMN=VALUE"),
        (["--where", "city=Oslo", "--predicate", "{}"], "what is to be erased is not clear"),
        ([], "what is to be erased is not clear"),
        (["--predicate", '{"column": "city"}'], "--predicate: Field required."),
    ],
)
def test_a_predicate_that_fits_no_column_erases_nothing(lake: Lake, arguments: list[str], said: str) -> None:
    """What cannot match by mistake is refused in one line, before anything is written."""
    before = everything(lake)
    found = lake.drystone("erase", "rows", STREAM, *arguments, *REASON)
    assert found.code == 2
    assert said in found.err
    assert everything(lake) == before


@pytest.mark.parametrize("op", ["=", "!=", "<", "<=", ">", ">="])
def test_conditions_are_typed_by_their_columns(lake: Lake, op: str) -> None:
    """A condition written as text compares as its column does: a number as a number, in every reader."""
    found = lake.drystone("erase", "rows", STREAM, "--where", f"count {op} 2005", *REASON, "--dry-run", "--json").json
    predicate = found["plan"]["edits"][0]["edit"]["predicate"]
    assert predicate == {"column": "count", "op": op, "value": 2005}
    compare = {"=": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}[op]
    expected = sum(getattr(row[1], compare)(2005) for row in read(lake))
    assert sum(each["rows"] for each in found["plan"]["edits"][0]["taken"]) == expected


def test_a_retired_block_is_gone_at_once(lake: Lake) -> None:
    """Its rows are read nowhere any more, and are counted also where another block holds them."""
    of_a = {(row[1], row[2]) for row in values(rows(0))}
    found = lake.drystone("retire", STREAM, "--source", lake.source("a"), *REASON, "--json").json
    (action,) = found["plan"]["edits"]
    assert [(each["rows"], each["whole"]) for each in action["taken"]] == [(30, False)]
    assert read(lake).isdisjoint(of_a)
    assert len(read(lake)) == 90


def test_retention_hides_what_is_too_old(lake: Lake) -> None:
    """With a retention in the configuration old rows are expired; without one there is nothing to do."""
    lake.drystone("retain", STREAM)
    assert read(lake) == set()
    lake.config_file.write_text(CONFIG)
    assert "There is nothing to do." in lake.drystone("retain", STREAM).out


def test_a_hold_says_when_it_can_be_relied_on(lake: Lake) -> None:
    """Placing a hold says from when on it is effective; the list says of each hold whether it is by now."""
    said = lake.drystone(*asked(lake)["hold"])
    assert "It is effective from 20" in said.out
    assert "listings may lag" in said.out
    (hold,) = lake.drystone("hold", "list", STREAM, "--json").json["holds"]
    assert (hold["name"], hold["state"], hold["owner"]) == ("fix", "new", "ann")
    assert hold["effective"] - hold["created"] == 15 * 60_000
    (skip,) = lake.drystone("plan", STREAM, "--json").json["skipped"]
    assert (skip["name"], skip["reason"]) == (lake.ulid("c"), "held")
    lake.drystone("hold", "release", STREAM, "fix")
    assert lake.drystone("hold", "list", STREAM, "--json").json["holds"] == []


def test_a_hold_that_cannot_be_read_is_listed(lake: Lake) -> None:
    """What removers take for a hold of everything is shown as one."""
    lake.bucket.put(f"{STREAM}/.holds/bad.json", b"{")
    (hold,) = lake.drystone("hold", "list", STREAM, "--json").json["holds"]
    assert (hold["name"], hold["owner"], hold["reason"]) == ("bad", "unknown", "it cannot be read")
    assert "never" in lake.drystone("hold", "list", STREAM).out


def test_an_unmarked_block_stays_unmarked(lake: Lake) -> None:
    """The mark of a covered block is gone, and the next mark run leaves it alone, as it is held."""
    lake.mark("a")
    assert lake.drystone("unmark", STREAM, lake.ulid("a"), *REASON).code == 0
    assert not lake.file("a", DELETION_MARK).exists()
    plan = Plan.model_validate(lake.drystone("plan", STREAM, "--kind", "mark", "--json").json)
    assert lake.ulid("a") not in {each.ulid for each in plan.marks}
    assert any(skip.name == lake.ulid("a") and skip.reason.startswith("held by ann") for skip in plan.skipped)


def test_everything_is_logged(lake: Lake) -> None:
    """The log has one action for each request, with what, why, by which run, for whom, and that it was done."""
    lake.mark("a")
    for command in asked(lake).values():
        lake.drystone(*command)
    found = lake.drystone("audit", STREAM, "--json").json["actions"]
    assert [each["what"] for each in found] == ["erase", "retire", "expire", "hold", "hold", "unmark"]
    assert {each["outcome"] for each in found} == {"done"}
    assert all(each["run"].startswith("terminal-") and each["by"] for each in found)
    assert [each["why"] for each in found][:2] == ["request 17", "request 17"]
    of_hold = lake.drystone("audit", STREAM, "--of", "fix", "--json").json["actions"]
    assert [each["block"] for each in of_hold] == ["fix"]
    text = lake.drystone("audit", STREAM, "--what", "unmark").out
    assert lake.ulid("a") in text
    assert "1 actions." in text
    assert len(lake.drystone("audit", STREAM, "--limit", 2, "--json").json["actions"]) == 2


@pytest.mark.parametrize("verb", ["erase", "hold"])
def test_what_is_killed_has_been_announced(lake: Lake, verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies at any write or delete has logged before what it would do; done again, it is done."""
    real = {name: getattr(type(lake.bucket), name) for name in ("create", "put", "delete")}
    died = True
    number = 0
    while died:
        died, left = False, [number]

        def dying(name: str, left: list[int] = left) -> Any:
            def call(self: Bucket, *arguments: Any) -> None:
                nonlocal died
                left[0] -= 1
                if left[0] < 0:
                    died = True
                    raise BucketError("killed")
                real[name](self, *arguments)

            return call

        before = objects_outside_the_log(lake)
        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(type(lake.bucket), name, dying(name))
            lake.drystone(*asked(lake)[verb])
        changed = objects_outside_the_log(lake) != before
        assert not changed or audit.actions(lake.bucket, STREAM), f"killed at call {number}"
        number += 1
    assert number > 2
    assert "There is nothing to do." in lake.drystone(*asked(lake)[verb]).out
    assert {entry.what for entry in audit.actions(lake.bucket, STREAM)} == {verb}


def objects_outside_the_log(lake: Lake) -> set[str]:
    """Return the keys of edits and holds."""
    prefixes = (keys.edits(STREAM), keys.holds(STREAM))
    return {item.key for prefix in prefixes for item in lake.bucket.list(prefix)}
