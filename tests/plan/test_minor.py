"""Minor compaction: small blocks of one chunk become few big ones, soon and cheaply; everything else is left."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from shelf import DAY, FIRST, HOUR, META_BYTES, Shelf

from drystone import ulids
from drystone.block.journal import Attempt
from drystone.errors import PlanExpiredError
from drystone.plan.model import Plan
from drystone.testing import folders

KB = 1000


def test_small_blocks_of_a_chunk_are_merged() -> None:
    """Small blocks of one day become one, in a merge that names its inputs, its chunk, its size, and why."""
    shelf = Shelf()
    for name in "abc":
        shelf.add(name, 5 * KB)
    (merge,) = shelf.minor().merges
    assert shelf.names(merge.groups) == {"a", "b", "c"}
    assert merge.blocks == tuple(sorted(shelf.folders))
    assert (merge.kind, merge.granularity, merge.label) == ("minor", "day", "2013-01-01")
    assert (merge.chunk_start, merge.chunk_end) == (FIRST, FIRST + DAY)
    assert (merge.outputs, merge.bytes, merge.rows) == (1, 15 * KB, 30)
    assert merge.reason == "3 small groups in one day"


def test_chunks_are_kept_apart() -> None:
    """Blocks of different days are never merged by a minor compaction."""
    shelf = Shelf()
    for name, day in zip("abcd", (0, 0, 1, 1), strict=True):
        shelf.add(name, day=day)
    assert sorted(map(sorted, shelf.merges(shelf.minor()))) == [["a", "b"], ["c", "d"]]


def test_coarser_chunks_are_left_to_major() -> None:
    """What was rolled up to a month is no matter of minor compaction, nor is what lies across two days."""
    shelf = Shelf()
    for name in "ab":
        shelf.add(name, granularity="month", days=20)
    for name in "cd":
        shelf.add(name, days=2)
    assert shelf.minor().merges == ()


@pytest.mark.parametrize(("size", "small"), [(49_999, True), (50_000, False), (100_000, False), (400_000, False)])
def test_target_size_is_left_alone(size: int, *, small: bool) -> None:
    """A group whose blocks have on average at least half of the target size is not touched any more."""
    shelf = Shelf()
    shelf.add("a", size)
    shelf.add("b", size, members=2)
    assert bool(shelf.minor().merges) == small


def test_min_inputs() -> None:
    """A minor compaction waits until a chunk has as many small groups as it is told to wait for."""
    shelf = Shelf()
    for name in "abc":
        shelf.add(name)
    assert len(shelf.minor(min_inputs=3).merges) == 1
    assert shelf.minor(min_inputs=4).merges == ()


def test_a_group_alone_is_left() -> None:
    """There is nothing to merge in a chunk with one group, of however many blocks."""
    shelf = Shelf()
    shelf.add("a", members=4)
    assert shelf.minor().actions == ()


@pytest.mark.parametrize(("count", "outputs"), [(2, 1), (3, 1), (4, 2), (6, 2), (7, 3), (20, 8)])
def test_outputs_have_about_target_size(count: int, outputs: int) -> None:
    """A merge has as many outputs as bring them closest to the target size."""
    shelf = Shelf()
    for number in range(count):
        shelf.add(chr(ord("a") + number), 40 * KB)
    assert shelf.minor().merges[0].outputs == outputs


@pytest.mark.parametrize("rules", [{"max_group_bytes": "20KB"}, {"max_bytes_per_run": "20KB"}])
def test_no_merge_exceeds_the_limits(rules: dict[str, str]) -> None:
    """A merge that would be too big for a merge, or for a whole run, becomes several."""
    shelf = Shelf()
    for name in "abcdef":
        shelf.add(name, 8 * KB)
    plan = shelf.minor(**rules)
    assert [len(merge.groups) for merge in plan.merges] == ([2, 2, 2] if "max_group_bytes" in rules else [2])
    assert all(merge.bytes <= 20 * KB for merge in plan.merges)


def test_the_budget_of_a_run() -> None:
    """A run takes the merges that save most per byte first, until its bytes are used up, and says what waits."""
    shelf = Shelf()
    for name, day in zip("aabbcc", (0, 0, 1, 1, 2, 2), strict=True):
        shelf.add(
            name + str(day) + str(len(shelf.folders)), 10 * KB * (day + 1), of=chr(97 + len(shelf.folders)), day=day
        )
    plan = shelf.minor(max_bytes_per_run="65KB")
    assert [merge.label for merge in plan.merges] == ["2013-01-01", "2013-01-02"]
    assert shelf.skips(plan) == {"2013-01-03": "max_bytes_per_run is used up; the next run goes on"}


@pytest.mark.parametrize(("order", "labels"), [("newest", ["02", "01"]), ("oldest", ["01", "02"])])
def test_of_equal_merges_the_order_decides(order: str, labels: list[str]) -> None:
    """Of merges with the same benefit the newest or the oldest chunk comes first, as configured."""
    shelf = Shelf()
    for name, day in zip("abcd", (0, 0, 1, 1), strict=True):
        shelf.add(name, day=day)
    assert [merge.label[-2:] for merge in shelf.minor(order=order).merges] == labels


def test_generations_are_never_mixed() -> None:
    """Blocks of another generation than the stream's are left, even among themselves."""
    shelf = Shelf()
    for name in "ab":
        shelf.add(name)
    for name in "cde":
        shelf.add(name, generation=1)
    assert shelf.merges(shelf.minor()) == [{"a", "b"}]


def test_what_is_downsampled_is_never_merged() -> None:
    """Derived blocks are rebuilt rather than merged, with raw ones least of all."""
    shelf = Shelf()
    shelf.add("a")
    for name in "bc":
        shelf.add(name, resolution=300_000)
    assert shelf.minor().merges == ()


def test_what_is_not_visible_is_left() -> None:
    """Fresh, incomplete, covered and retired groups are no inputs."""
    shelf = Shelf()
    shelf.add("a")
    shelf.add("b", age=60_000)
    shelf.add("c", members=2, there=[1])
    shelf.add("f", of="de")
    shelf.add("d")
    shelf.add("r")
    shelf.retire("r")
    assert shelf.merges(shelf.minor()) == [{"a", "f"}]


@pytest.mark.parametrize("why", ["marked", "no-compact", "held", "everything held"])
def test_what_is_marked_or_held_is_left(why: str) -> None:
    """A group of which a block is marked, marked no-compact or held is skipped, with the reason."""
    shelf = Shelf()
    for name in "abc":
        shelf.add(name)
    shelf.add("m", members=2)
    reason = {
        "marked": "marked for deletion",
        "no-compact": "marked no-compact",
        "held": "held",
        "everything held": "held",
    }[why]
    one = shelf.blocks("m")[1]
    match why:
        case "marked":
            shelf.put(folders.marked(shelf.folders[one], 0))
        case "no-compact":
            shelf.put(folders.no_compact(shelf.folders[one]))
        case "held":
            shelf.hold("m")
        case _:
            shelf.hold()
    plan = shelf.minor()
    assert shelf.merges(plan) == ([] if why == "everything held" else [{"a", "b", "c"}])
    assert shelf.skips(plan)["m"] == reason


def test_a_hold_that_is_over_holds_nothing() -> None:
    """An expired hold is as none."""
    shelf = Shelf()
    for name in "ab":
        shelf.add(name)
    shelf.hold(expires=shelf.now)
    assert len(shelf.minor().merges) == 1


def test_what_has_a_replacement_on_its_way_is_left() -> None:
    """Groups whose compaction is uploaded and not ready yet are not merged again; others in the chunk are."""
    shelf = Shelf()
    for name in "abcd":
        shelf.add(name)
    shelf.add("f", of="ab", age=60_000)
    plan = shelf.minor()
    assert shelf.merges(plan) == [{"c", "d"}]
    assert shelf.skips(plan)["a"] == "its replacement is uploaded and not ready yet"


@pytest.mark.parametrize(("age", "merged"), [(0, False), (899_999, False), (900_000, True), (10_000_000, True)])
def test_what_the_journal_says_was_merged_is_left_for_a_moment(age: int, *, merged: bool) -> None:
    """What was merged less than syncDelay ago is left, even if the listing does not show the result."""
    shelf = Shelf()
    for name in "ab":
        shelf.add(name)
    done = {"key": tuple(shelf.groups.values())}
    shelf.journal.append(Attempt(run="r", time=shelf.now - age, done=done))
    plan = shelf.minor()
    assert bool(plan.merges) == merged
    if not merged:
        assert shelf.skips(plan)["a"] == "merged a moment ago; its replacement is not ready yet"


def test_the_journal_counts_as_long_as_listings_may_lag() -> None:
    """With a store that lags, the journal is believed for longer."""
    shelf = Shelf(times=replace(Shelf.times, max_lag=60_000))
    for name in "ab":
        shelf.add(name)
    shelf.journal.append(Attempt(run="r", time=shelf.now - 930_000, done={"k": tuple(shelf.groups.values())}))
    assert shelf.minor().merges == ()


def test_overlaps_come_first_and_whole() -> None:
    """Groups that share a source are merged first, of whatever size, in the chunk that holds them all."""
    shelf = Shelf()
    shelf.add("f", 900 * KB, of="abcd")
    shelf.add("x", 300 * KB, of="de", day=1)
    shelf.add("g")
    shelf.add("h")
    plan = shelf.minor()
    assert shelf.merges(plan) == [{"f", "x"}, {"g", "h"}]
    assert [merge.kind for merge in plan.merges] == ["overlap", "minor"]
    assert plan.merges[0].granularity == "month"
    assert plan.merges[0].reason == "they share sources"


def test_overlaps_are_connected() -> None:
    """Groups that share sources through others are one merge."""
    shelf = Shelf()
    shelf.add("x", of="abc")
    shelf.add("y", of="cde")
    shelf.add("z", of="efg")
    shelf.add("w", of="hi")
    shelf.add("v", of="ij")
    assert sorted(map(sorted, shelf.merges(shelf.minor()))) == [["v", "w"], ["x", "y", "z"]]


def test_groups_that_share_only_what_is_gone_do_not_overlap() -> None:
    """A retired source that two groups had is no reason to weld them together."""
    shelf = Shelf()
    shelf.add("x", 900 * KB, of="ab")
    shelf.add("y", 900 * KB, of="bc")
    shelf.retire("b")
    assert shelf.minor().merges == ()


def test_an_overlap_with_a_group_that_must_be_left() -> None:
    """If one of two overlapping groups is held, the other is not merged for the overlap's sake."""
    shelf = Shelf()
    shelf.add("x", of="ab")
    shelf.add("y", of="bc")
    shelf.hold("y")
    assert shelf.minor().merges == ()


def test_an_overlap_that_is_too_big_is_left_and_reported() -> None:
    """Overlapping groups that exceed the limit together are left, and no other merge takes them."""
    shelf = Shelf()
    shelf.add("x", 30 * KB, of="ab")
    shelf.add("y", 30 * KB, of="bc")
    shelf.add("z", 30 * KB)
    plan = shelf.minor(max_group_bytes="50KB")
    assert plan.merges == ()
    (reason,) = shelf.skips(plan).values()
    assert reason == "they share sources, but exceed max_group_bytes"


def test_an_overlap_that_no_chunk_holds_is_left_and_reported() -> None:
    """Overlapping groups in different years are left: no time chunk is wide enough."""
    shelf = Shelf()
    shelf.add("x", of="ab")
    shelf.add("y", of="bc", day=380)
    plan = shelf.minor()
    assert plan.merges == ()
    (reason,) = shelf.skips(plan).values()
    assert reason == "they share sources, but no single time chunk holds them"


def test_garbage_in_time_stops_nobody() -> None:
    """A block whose time range is nonsense is left, and the others are merged."""
    shelf = Shelf()
    for name in "ab":
        shelf.add(name)
    shelf.add("c", min_time=-(1 << 62), max_time=1 << 62)
    assert shelf.merges(shelf.minor()) == [{"a", "b"}]
    assert shelf.skips(shelf.major_plan())["c"] == "no single time chunk holds it"


def test_keys_name_the_work_and_not_the_run() -> None:
    """The same inputs give the same key, whenever and in whatever order they are planned; other inputs another."""
    shelf = Shelf()
    for name in "ab":
        shelf.add(name)
    first = shelf.minor().merges[0].key
    shelf.now += HOUR
    shelf.folders = dict(reversed(shelf.folders.items()))
    assert shelf.minor().merges[0].key == first
    shelf.add("c")
    assert shelf.minor().merges[0].key != first


def test_batches_share_the_work() -> None:
    """Every merge is in exactly one batch, and the batches have about the same bytes."""
    shelf = Shelf()
    dice = Random(1)
    for day in range(20):
        for name in "ab":
            shelf.add(f"{name}{day}", dice.randint(5, 40) * KB, of=chr(200 + 2 * day + (name == "b")), day=day)
    plan = shelf.minor(batches=3, size_ratio=100)
    assert sorted(position for batch in plan.batches for position in batch) == list(range(20))
    loads = [sum(plan.merges[position].bytes for position in batch) for batch in plan.batches]
    assert max(loads) - min(loads) <= max(merge.bytes for merge in plan.merges)
    assert len(shelf.minor(batches=50, size_ratio=100).batches) == 20


def test_a_plan_is_data_that_expires() -> None:
    """A plan survives its object, and is refused once plan_ttl is over."""
    shelf = Shelf()
    for name in "ab":
        shelf.add(name)
    plan = shelf.minor()
    assert Plan.model_validate_json(plan.to_json()) == plan
    assert plan.expires == shelf.now + shelf.times.plan_ttl
    plan.check(plan.expires - 1)
    with pytest.raises(PlanExpiredError, match=r"plan plan of stream stream expired 0 s ago\. Plan again"):
        plan.check(plan.expires)


def test_an_empty_stream_has_an_empty_plan() -> None:
    """With nothing to do, a plan has no action and no batch."""
    plan = Shelf().minor()
    assert plan.actions == plan.batches == plan.skipped == ()


def test_rows_are_rewritten_a_logarithmic_number_of_times_while_a_day_fills() -> None:
    """Some 300 appends to one day with a minor compaction after each rewrite a row a dozen times at most.

    In the end most bytes lie in blocks of target size, which no merge has ever touched again.
    """
    shelf = Shelf()
    target, dice = 100 * KB, Random(3)
    depth: dict[str, int] = {}
    for number in range(300):
        name = f"n{number}"
        shelf.add(name, dice.randint(2, 12) * KB, of=chr(1000 + number))
        depth[shelf.groups[name]] = 0
        for merge in shelf.minor(target_block_bytes=f"{target}B").merges:
            assert all(2 * shelf.folders[block].size < target for block in merge.blocks)
            letters = "".join(_letters(shelf, block) for block in merge.blocks)
            level = max(depth.pop(group) for group in merge.groups) + 1
            for block in merge.blocks:
                del shelf.folders[block]
            merged = f"m{number}-{len(depth)}"
            shelf.add(merged, merge.bytes // merge.outputs, of=letters, members=merge.outputs)
            depth[shelf.groups[merged]] = level
    big = [folder.size for folder in shelf.folders.values() if 2 * folder.size >= target]
    assert max(depth.values()) <= 12
    assert sum(big) > 0.9 * sum(folder.size for folder in shelf.folders.values())
    assert max(big) <= 1.5 * target
    assert all(size > META_BYTES for size in big)


def _letters(shelf: Shelf, block: str) -> str:
    by_source = {shelf.source(chr(1000 + number)): chr(1000 + number) for number in range(300)}
    assert all(ulids.is_canonical(source) for source in by_source)
    return "".join(by_source[source] for source in shelf.folders[block].sources)
