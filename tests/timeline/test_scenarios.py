"""The cases that the design names, one by one: what is visible, and which rows a reader gets."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from drystone.block.edits import Erase, Expire, Retire
from drystone.block.predicates import Comparison
from drystone.testing.history import BEGIN, DAY, History
from drystone.testing.invariants import check_against_model, check_read_exactly_once, read
from drystone.testing.writers import FIVE_MINUTES, Output, compact, plan_source, replace_source, upload
from drystone.timeline.timeline import Timeline, resolve_blocks

HOUR = 3_600_000


class Stream:
    """A history that is written step by step, syncDelay after syncDelay, with short names for sources and groups."""

    def __init__(self) -> None:
        """Begin without a block."""
        self.history = History()
        self.sources: dict[str, str] = {}
        self.groups: dict[str, str] = {}

    def uploads(self, *names: str, day: int = 0) -> None:
        """Upload a block for each new source."""
        for name in names:
            start = BEGIN + day * DAY
            self.sources[name] = plan_source(self.history, start, start + HOUR)
            upload(self.history, self.sources[name])
            self._note(name)
        self.wait()

    def compacts(
        self, name: str, *inputs: str, at: int | None = None, output: Output | None = None, **more: int
    ) -> None:
        """Upload a compaction of groups, by a run that looked at the moment `at`, by default now."""
        chosen = [self.groups[each] for each in inputs]
        moment = self.history.now if at is None else at
        compact(self.history, chosen, moment, output=output or Output(), **more)
        self._note(name)
        self.wait()

    def replaces(self, name: str, root: str, at: int | None = None, day: int = 0, output: Output | None = None) -> None:
        """Upload a replacement of a source, planned at a moment."""
        start = BEGIN + day * DAY
        moment = self.history.now if at is None else at
        replace_source(self.history, self.sources[root], moment, start, start + HOUR, output or Output())
        self.sources[name] = list(self.history.ranges)[-1]
        self._note(name)
        self.wait()

    def retires(self, *names: str) -> None:
        """Retire sources."""
        sources = tuple(self.sources[name] for name in names)
        self._edit(Retire(id=self._edit_id(), reason="", author="", time=self.history.now, sources=sources))

    def erases(self, kind: str) -> None:
        """Erase rows of a kind."""
        predicate = Comparison(column="kind", op="=", value=kind)
        self._edit(Erase(id=self._edit_id(), reason="", author="", time=self.history.now, predicate=predicate))

    def expires(self, before: int) -> None:
        """Expire what lies before a time."""
        self._edit(Expire(id=self._edit_id(), reason="", author="", time=self.history.now, before=before))

    def wait(self) -> None:
        """Let syncDelay pass."""
        self.history.now += self.history.times.sync_delay

    def loses(self, name: str) -> None:
        """Lose the file of one block of a group."""
        lost = next(block for block in self.history.blocks if block.group == self.groups[name])
        self.history.blocks[self.history.blocks.index(lost)] = replace(lost, loadable=False)

    def deletes(self, name: str) -> None:
        """Delete a group's blocks."""
        self.history.blocks = [block for block in self.history.blocks if block.group != self.groups[name]]

    @property
    def timeline(self) -> Timeline:
        """The timeline, which is as the model says."""
        history = self.history
        found = resolve_blocks(history.blocks, history.edits, history.times, history.now)
        check_against_model(history, found)
        return found

    @property
    def visible(self) -> set[str]:
        """The short names of the visible groups."""
        names = {group: name for name, group in self.groups.items()}
        return {names[group] for group in self.timeline.visible}

    def reads(self, name: str) -> set[str]:
        """The short names of the sources that are read from a group."""
        names = {source: short for short, source in self.sources.items()}
        visible = self.timeline.visible[self.groups[name]]
        return {names[source] for source in visible.group.sources - visible.excluded}

    def check(self) -> None:
        """Every row is read exactly once."""
        check_read_exactly_once(self.history, self.timeline)

    @property
    def rows(self) -> Counter[tuple[str, str]]:
        """How often each row is read, by its source's short name and its kind."""
        names = {source: short for short, source in self.sources.items()}
        found: Counter[tuple[str, str]] = Counter()
        for (_, row), times in read(self.history, self.timeline).items():
            found[names[row.source], row.kind] += times
        return found

    def _edit(self, edit: Erase | Retire | Expire) -> None:
        self.history.edits.append(edit)

    def _edit_id(self) -> str:
        return self.history.new_ulid(self.history.now)

    def _note(self, name: str) -> None:
        self.groups[name] = self.history.blocks[-1].group


def test_full_overlap() -> None:
    """F(ABCD) covers A, B, C, D and any group of those, and is itself what every row is read from."""
    stream = Stream()
    stream.uploads("A", "B", "C", "D")
    stream.compacts("G", "A", "B")
    before = stream.history.now
    stream.compacts("F", "G", "C", "D")
    stream.compacts("H", "C", "D", at=before)
    assert stream.visible == {"F"}
    assert stream.timeline.covered == {stream.groups[name]: stream.groups["F"] for name in "ABCDGH"}
    stream.check()


def test_partial_overlap() -> None:
    """F(ABCD) does not cover X(DE): both are visible, D is read from F, which has more sources, and E from X."""
    stream = Stream()
    stream.uploads("A", "B", "C", "D", "E")
    before = stream.history.now
    stream.compacts("F", "A", "B", "C", "D")
    stream.compacts("X", "D", "E", at=before)
    assert stream.visible == {"F", "X"}
    assert stream.reads("F") == {"A", "B", "C", "D"}
    assert stream.reads("X") == {"E"}
    stream.check()


def test_of_overlaps_with_as_many_sources_the_older_owns() -> None:
    """Of two groups with as many sources, what both hold is read from the older."""
    stream = Stream()
    stream.uploads("A", "B", "C")
    before = stream.history.now
    stream.compacts("F", "A", "B")
    stream.compacts("X", "B", "C", at=before)
    assert stream.reads("F") == {"A", "B"}
    assert stream.reads("X") == {"C"}


def test_nothing_changes_before_the_replacement_is_ready() -> None:
    """While a compaction is fresh its inputs are read, and from the moment that it is ready it alone."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B")
    stream.history.now -= 1
    assert stream.visible == {"A", "B"}
    assert stream.timeline.pending.keys() == {stream.groups["F"]}
    stream.history.now += 1
    assert stream.visible == {"F"}


def test_a_doubled_upload_is_read_once() -> None:
    """Of two uploads of one source the older is read."""
    stream = Stream()
    stream.uploads("A")
    upload(stream.history, stream.sources["A"])
    stream.groups["again"] = stream.history.blocks[-1].group
    stream.wait()
    assert stream.visible == {"A"}
    stream.check()


def test_a_narrow_group_does_not_cover() -> None:
    """A group that has all sources of another, but not its time range, does not cover it, and is reported."""
    stream = Stream()
    stream.uploads("A", "B")
    upload(stream.history, stream.sources["A"], wider=HOUR)
    stream.groups["wide"] = stream.history.blocks[-1].group
    stream.wait()
    stream.compacts("F", "A", "B")
    assert stream.visible == {"F", "wide"}
    assert stream.reads("wide") == set()
    assert [problem.kind for problem in stream.timeline.problems] == ["narrow-replacement"]
    stream.check()


def test_of_equal_sets_more_edits_win() -> None:
    """Of two groups with the same sources the one that has applied more edits covers the other, though younger."""
    stream = Stream()
    stream.uploads("A", "B")
    before = stream.history.now
    stream.compacts("F", "A", "B")
    stream.erases("x")
    stream.compacts("younger", "A", "B")
    stream.compacts("zombie", "A", "B", at=before, rewrite=1)
    assert stream.visible == {"younger"}
    assert stream.timeline.visible[stream.groups["younger"]].edits == ()
    assert stream.rows == {("A", "y"): 1, ("B", "y"): 1}


def test_a_rewrite_takes_effect() -> None:
    """Of equal groups with as many edits the deliberate rewrite wins, and would not by its age."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B")
    stream.compacts("again", "F")
    assert stream.visible == {"F"}
    stream.compacts("rewritten", "F", rewrite=1)
    assert stream.visible == {"rewritten"}
    stream.check()


def test_of_equal_groups_the_older_wins() -> None:
    """Of groups that are equal in all else, the one with the oldest block wins."""
    stream = Stream()
    stream.uploads("A", "B")
    before = stream.history.now
    stream.compacts("F", "A", "B")
    stream.compacts("younger", "A", "B", at=before)
    assert stream.visible == {"F"}


def test_a_group_shows_as_a_whole_or_not_at_all() -> None:
    """A group that lacks a member is not read and covers nothing; as its sources are visible, that is no damage."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B", output=Output(size=3, lost=frozenset({1})))
    assert stream.visible == {"A", "B"}
    assert stream.timeline.incomplete.keys() == {stream.groups["F"]}
    assert stream.timeline.damage == ()


def test_twins_are_read_once() -> None:
    """Of two blocks with one index the older counts; the other is spare."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B", output=Output(size=2, twins=frozenset({0, 1}), lag=0))
    assert stream.visible == {"F"}
    assert list(stream.timeline.twins.values()) == [stream.groups["F"]] * 2
    stream.check()


def test_a_twin_makes_up_for_a_broken_member() -> None:
    """A group is complete if some block of each index can be loaded."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B", output=Output(size=2, twins=frozenset({1}), broken=frozenset({1}), lag=0))
    assert stream.visible == {"F"}
    stream.check()


def test_a_late_twin_takes_no_ready_group_back() -> None:
    """A twin with an older ULID that arrives when the inputs are long gone does not make its group wait again."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B", output=Output(size=2))
    for name in "AB":
        stream.deletes(name)
    member = stream.history.blocks[0]
    early = replace(member, ulid=member.ulid[:10] + "0" * 16, touched=stream.history.now)
    stream.history.blocks.append(early)
    stream.history.rows[early.ulid] = stream.history.rows[member.ulid]
    assert stream.visible == {"F"}
    assert stream.timeline.twins == {}
    stream.check()
    stream.wait()
    assert stream.visible == {"F"}
    assert stream.timeline.twins == {member.ulid: stream.groups["F"]}
    stream.check()


def test_a_lost_member_of_the_last_copy_is_damage() -> None:
    """When a group loses a member after its inputs are deleted, that is damage, with its time range."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B", output=Output(size=2))
    stream.deletes("A")
    stream.loses("F")
    (damage,) = stream.timeline.damage
    assert damage.name == stream.groups["F"]
    assert (damage.min_time, damage.max_time) == (BEGIN, BEGIN + HOUR)
    assert "member 0 of 2 cannot be read" in damage.text
    assert "1 of its sources are nowhere else" in damage.text


def test_a_first_upload_that_still_runs_is_no_damage() -> None:
    """A block whose files are not all listed yet is damage only when syncDelay is over."""
    stream = Stream()
    stream.uploads("A")
    stream.loses("A")
    stream.history.now -= 1
    assert stream.timeline.damage == ()
    stream.history.now += 1
    assert [damage.name for damage in stream.timeline.damage] == [stream.groups["A"]]


def test_retired_rows_do_not_come_back_with_their_cover_gone() -> None:
    """When all sources of a cover are retired, it is out, and what it covered is out as well, not visible again."""
    stream = Stream()
    stream.uploads("A", "B", "C")
    stream.compacts("F", "A", "B")
    stream.retires("A", "B")
    assert stream.visible == {"C"}
    assert stream.timeline.out == {stream.groups[name]: "retired" for name in "ABF"}
    stream.deletes("F")
    assert stream.visible == {"C"}
    stream.check()


def test_a_retired_source_does_not_change_who_covers_whom() -> None:
    """What covered a group goes on to cover it when one of its other sources is retired or replaced."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B")
    stream.retires("A")
    assert stream.visible == {"F"}
    assert stream.reads("F") == {"B"}
    stream.check()


def test_a_zombie_of_a_retired_source_is_not_read() -> None:
    """An upload of a retired source that arrives late stays out."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.retires("A")
    stream.compacts("F", "A", "B", output=Output())
    upload(stream.history, stream.sources["A"])
    stream.wait()
    assert stream.rows == {("B", "x"): 1, ("B", "y"): 1}
    stream.check()


def test_what_replaces_a_retired_source_is_retired_with_it() -> None:
    """A repair that was under way when its source was retired brings no row back, compacted or not."""
    stream = Stream()
    stream.uploads("A", "B")
    planned = stream.history.now
    stream.retires("A")
    stream.replaces("A2", "A", at=planned)
    assert stream.visible == {"B"}
    stream.check()
    stream.compacts("F", "A2", "B")
    assert stream.rows == {("B", "x"): 1, ("B", "y"): 1}
    stream.check()


def test_a_compaction_drops_retired_rows_for_good() -> None:
    """A compaction that knows of a retirement leaves the rows out, so that nothing is left to exclude."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.retires("A")
    stream.compacts("F", "A", "B")
    visible = stream.timeline.visible[stream.groups["F"]]
    assert visible.gone == frozenset()
    assert visible.excluded == frozenset()
    stream.check()


def test_an_erase_is_in_force_at_once_and_for_late_uploads() -> None:
    """Erased rows are left out of what is there, and of a zombie's upload of a source that was planned before."""
    stream = Stream()
    stream.uploads("A")
    stream.erases("x")
    upload(stream.history, stream.sources["A"], wider=HOUR)
    stream.wait()
    stream.history.now += stream.history.times.clock_skew
    stream.uploads("B")
    assert stream.rows == {("A", "y"): 1, ("B", "x"): 1, ("B", "y"): 1}
    stream.check()


def test_an_erase_reaches_what_replaces_an_erased_source() -> None:
    """A source that is planned after an erase, but stands for an older one, is erased too."""
    stream = Stream()
    stream.uploads("A")
    stream.erases("x")
    stream.history.now += stream.history.times.clock_skew
    stream.replaces("A2", "A")
    assert stream.rows == {("A2", "y"): 1}
    stream.check()


def test_expired_groups_are_out_and_half_expired_ones_are_filtered() -> None:
    """A group that ends before the limit is out; of one that reaches over it, the rows before are left out."""
    stream = Stream()
    stream.uploads("A")
    stream.uploads("B", day=1)
    stream.compacts("F", "A", "B")
    stream.uploads("C", day=-1)
    stream.expires(BEGIN + DAY)
    assert stream.timeline.out == {stream.groups["C"]: "expired", stream.groups["A"]: "expired"}
    assert stream.rows == {("B", "x"): 1, ("B", "y"): 1}
    stream.check()


def test_replacing_moves_rows_to_another_day() -> None:
    """A replaced source is read nowhere, wherever the new rows lie; until those are ready, nothing changes."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B")
    stream.replaces("A2", "A", day=1)
    stream.history.now -= 1
    assert stream.visible == {"F"}
    assert stream.reads("F") == {"A", "B"}
    stream.history.now += 1
    assert stream.visible == {"F", "A2"}
    assert stream.reads("F") == {"B"}
    stream.check()


def test_a_replaced_source_alone_is_out() -> None:
    """A group that holds replaced sources only is out."""
    stream = Stream()
    stream.uploads("A")
    stream.replaces("A2", "A")
    assert stream.visible == {"A2"}
    assert stream.timeline.out == {stream.groups["A"]: "replaced"}
    stream.check()


def test_of_two_replacements_the_newest_plan_wins() -> None:
    """Of two replacements of one root the one that was planned last is read, also when the other arrives later."""
    stream = Stream()
    stream.uploads("A", "B")
    before = stream.history.now
    stream.replaces("older", "A")
    stream.replaces("newer", "A", at=before)
    assert stream.visible == {"B", "newer"}
    stream.compacts("F", "B", "newer")
    assert stream.visible == {"F"}
    stream.check()


def test_half_a_replacement_of_what_was_replaced_meanwhile_is_no_damage() -> None:
    """Two replace one source, and do not see one another; one dies half-way: the other's rows are read."""
    stream = Stream()
    stream.uploads("A")
    before = stream.history.now
    stream.replaces("B", "A")
    stream.replaces("C", "A", at=before, output=Output(size=2, lost=frozenset({1})))
    assert stream.visible == {"B"}
    assert stream.timeline.damage == ()


def test_a_replacement_of_a_replacement() -> None:
    """What replaces a replacement stands for the same root: against another of that root, the newest plan wins."""
    stream = Stream()
    stream.uploads("A", "Z")
    before = stream.history.now
    stream.replaces("B", "A")
    stream.replaces("C", "B")
    assert stream.visible == {"C", "Z"}
    stream.replaces("D", "A", at=before)
    assert stream.visible == {"D", "Z"}
    stream.check()


def test_what_a_compaction_dropped_stays_dropped_under_a_newer_replacement() -> None:
    """A compaction that took a replacement in excludes its rows when a newer replacement of the root arrives."""
    stream = Stream()
    stream.uploads("A", "B")
    before = stream.history.now
    stream.replaces("A2", "A")
    stream.compacts("F", "A2", "B")
    assert stream.reads("F") == {"A2", "B"}
    stream.replaces("A3", "A", at=before)
    assert stream.visible == {"F", "A3"}
    assert stream.reads("F") == {"B"}
    stream.check()


def damaged(stream: Stream) -> set[str]:
    """Return the short names of the groups that are damage."""
    names = {group: name for name, group in stream.groups.items()}
    return {names[damage.name] for damage in stream.timeline.damage}


def test_readers_do_not_quietly_go_back_to_what_was_replaced() -> None:
    """A replacement that was whole, and lost a file, is damage, though its root's block is still there."""
    stream = Stream()
    stream.uploads("A")
    stream.replaces("A2", "A")
    assert damaged(stream) == set()
    stream.loses("A2")
    assert damaged(stream) == {"A2"}


def replaces_in_two(stream: Stream, name: str, root: str, output: Output) -> None:
    """Upload a replacement of two blocks."""
    replace_source(stream.history, stream.sources[root], stream.history.now, BEGIN, BEGIN + HOUR, output)
    stream.sources[name] = list(stream.history.ranges)[-1]
    stream.groups[name] = stream.history.blocks[-1].group
    stream.wait()


def test_a_replacement_that_was_never_whole_changes_nothing() -> None:
    """Half a replacement is no damage while its root is read, nor when a newer one has taken the root's place."""
    stream = Stream()
    stream.uploads("A")
    replaces_in_two(stream, "half", "A", Output(size=2, lost=frozenset({1})))
    assert stream.visible == {"A"}
    assert damaged(stream) == set()
    stream.replaces("A2", "A")
    assert stream.visible == {"A2"}
    assert damaged(stream) == set()
    stream.retires("A")
    assert damaged(stream) == set()


def test_a_broken_replacement_that_a_newer_one_superseded_is_no_damage() -> None:
    """What nobody would read any more is missed by nobody."""
    stream = Stream()
    stream.uploads("A")
    replaces_in_two(stream, "older", "A", Output(size=2))
    stream.replaces("newer", "A")
    stream.loses("older")
    assert stream.visible == {"newer"}
    assert damaged(stream) == set()


def test_what_is_read_at_once_is_missed_at_once() -> None:
    """An urgent repair that loses a file is damage from then on, and not only when syncDelay is over."""
    stream = Stream()
    stream.uploads("A")
    replaces_in_two(stream, "urgent", "A", Output(size=2, ignore_delay=True))
    stream.history.now -= stream.history.times.sync_delay - 60_000
    stream.loses("urgent")
    assert damaged(stream) == {"urgent"}


def test_a_missing_member_is_not_taken_for_expired() -> None:
    """Of a group that an upload made, each block has a range of its own: what is there says nothing of what is not."""
    stream = Stream()
    stream.uploads("A")
    replaces_in_two(stream, "A2", "A", Output(size=2))
    later = [replace(block, min_time=BEGIN + DAY, max_time=BEGIN + 2 * DAY) for block in stream.history.blocks[-1:]]
    stream.history.blocks[-1:] = later
    stream.deletes("A")
    stream.expires(BEGIN + DAY)
    stream.history.blocks = stream.history.blocks[:-1]
    assert damaged(stream) == {"A2"}


def test_half_a_deletion_of_what_has_expired_is_no_damage() -> None:
    """An uploaded group of two chunks goes block by block: the mark that is left tells what the other was."""
    stream = Stream()
    stream.uploads("A")
    replaces_in_two(stream, "A2", "A", Output(size=2))
    stream.deletes("A")
    stream.expires(BEGIN + DAY)
    stream.history.blocks = [replace(block, expired=True) for block in stream.history.blocks[1:]]
    assert damaged(stream) == set()


def test_an_expired_block_that_cannot_be_read_tells_what_is_expired() -> None:
    """A crashed compaction is no damage where what it names has expired, whether that is whole or not."""
    stream = Stream()
    stream.uploads("A")
    stream.uploads("B", day=1)
    stream.compacts("F", "A", "B", output=Output(size=2, lost=frozenset({1})))
    stream.loses("A")
    assert damaged(stream) == {"A", "F"}
    stream.expires(BEGIN + DAY)
    assert damaged(stream) == set()


def test_blocks_of_one_group_that_disagree_are_damage() -> None:
    """Blocks of one group that disagree in their sources form no group; that is reported, and damage."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B", output=Output(size=2))
    lying = stream.history.blocks[-1]
    stream.history.blocks[-1] = replace(lying, sources=frozenset({stream.sources["A"]}))
    assert stream.visible == {"A", "B"}
    assert [damage.name for damage in stream.timeline.damage] == [lying.group]
    assert "disagree about sources" in stream.timeline.problems[0].text


def test_resolutions_and_generations_do_not_touch_each_other() -> None:
    """What is downsampled neither covers the raw rows nor is covered by them; the same goes for another generation."""
    stream = Stream()
    stream.uploads("A")
    stream.compacts("small", "A", resolution=FIVE_MINUTES)
    other = plan_source(stream.history, BEGIN, BEGIN + HOUR, generation=1)
    stream.sources["other"] = other
    upload(stream.history, other)
    stream.groups["other"] = stream.history.blocks[-1].group
    stream.wait()
    assert stream.visible == {"A", "small", "other"}


def test_urgent_repairs_are_ready_at_once() -> None:
    """A block with ignore_delay counts from the moment that it is there."""
    stream = Stream()
    stream.uploads("A", "B")
    stream.compacts("F", "A", "B", output=Output(ignore_delay=True))
    stream.history.now -= stream.history.times.sync_delay
    assert stream.visible == {"F"}
