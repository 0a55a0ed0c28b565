"""`drystone plan`."""

from __future__ import annotations

import pytest
from lakes import CONFIG, STREAM, Lake, Row, rows

from drystone.plan.model import Plan

Busy = tuple[Lake, list[Row]]


def everything(lake: Lake) -> dict[str, int]:
    """Return every object of the bucket with its time."""
    return {item.key: item.modified for item in lake.bucket.list("")}


def test_the_plan_object(busy: Busy) -> None:
    """--json prints the plan object that a job would write and execute: a Plan, with merges, batches and reasons."""
    lake, _ = busy
    found = lake.drystone("plan", STREAM, "--json")
    plan = Plan.model_validate_json(found.out)
    assert (plan.stream, plan.kind, found.code) == (STREAM, "minor", 0)
    assert [merge.kind for merge in plan.merges] == ["overlap"]
    assert set(plan.merges[0].blocks) == {lake.ulid("f"), lake.ulid("f1"), lake.ulid("x")}
    assert plan.batches == ((0,),)
    assert plan.expires - plan.created == 3_600_000


@pytest.mark.parametrize(
    ("kind", "action", "names"),
    [("mark", "mark", ["b", "c", "d"]), ("sweep", "delete", ["a"])],
)
def test_what_the_remover_would_do(busy: Busy, kind: str, action: str, names: list[str]) -> None:
    """Marking and sweeping are planned as the remover plans them, each action with its reason."""
    lake, _ = busy
    plan = Plan.model_validate_json(lake.drystone("plan", STREAM, "--kind", kind, "--json").out)
    planned = [each for each in plan.actions if each.ulid in {meta.ulid for meta in lake.blocks.values()}]
    assert {(each.action, each.ulid) for each in planned} == {(action, lake.ulid(name)) for name in names}
    assert all(each.reason.startswith("covered by group") for each in planned)


def test_a_table_for_people(busy: Busy) -> None:
    """For people there is a line for each action and for each thing that is left alone, with the reason."""
    lake, _ = busy
    text = lake.drystone("plan", STREAM, "--kind", "major").out
    assert "overlap: they share sources" in text
    assert "merge   2013-01-01" in text
    assert "1 actions, 1 left alone" in text or "actions" in text.splitlines()[-1]


@pytest.mark.parametrize("kind", ["minor", "major", "mark", "sweep"])
def test_nothing_is_changed(busy: Busy, kind: str) -> None:
    """Planning writes nothing into the bucket, not even the plan."""
    lake, _ = busy
    before = everything(lake)
    assert lake.drystone("plan", STREAM, "--kind", kind).code == 0
    assert everything(lake) == before


def test_batches(lake: Lake) -> None:
    """A compaction's work is cut into as many batches as are asked for, by default max_parallel_jobs."""
    for day in range(4):
        for number in range(2):
            lake.ingest(f"{day}/{number}", rows(10 * day + number, day=day))
    assert len(Plan.model_validate_json(lake.drystone("plan", STREAM, "--json").out).batches) == 2
    one = lake.drystone("plan", STREAM, "--batches", 1, "--json").out
    assert Plan.model_validate_json(one).batches == ((0, 1, 2, 3),)


def test_a_stream_without_data(lake: Lake) -> None:
    """A stream of the configuration that was never ingested has an empty plan."""
    lake.config_file.write_text(CONFIG.replace("events:", "later:"))
    found = lake.drystone("plan", "later", "--json")
    assert (found.code, Plan.model_validate_json(found.out).actions) == (0, ())


def test_a_configuration_that_the_stream_cannot_take(busy: Busy) -> None:
    """A plan under a configuration that the live stream cannot take is refused, as the job would refuse it."""
    lake, _ = busy
    lake.config_file.write_text(CONFIG.replace("[city, time]", "[time, city]"))
    found = lake.drystone("plan", STREAM)
    assert found.code == 2
    assert "sort_key is ('city', 'time') and cannot become ('time', 'city')" in found.err
