"""A stream's whole life without a byte: writers, compactions, removers and operators in one process, step by step.

Decisions are the real ones (timeline, planners, recipes); acts change a list of blocks. Runs overlap: what was planned
is done later, or never, or twice. For whether blocks are written and deleted as they should be, see the engine's tests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

from drystone import ulids
from drystone.block.edits import Erase, Expire
from drystone.block.folder import Folder
from drystone.block.meta import Replacement
from drystone.engine.recipe import Input, Recipe, recipe_for
from drystone.plan.compaction import CompactionPolicy, plan_major, plan_minor
from drystone.plan.edits import Seen
from drystone.plan.erasures import check_erasure, plan_rewrite, unapplied
from drystone.plan.model import Delete, Mark, Plan, Unmark
from drystone.plan.removal import plan_marks, plan_sweep
from drystone.plan.support import Support
from drystone.testing.folders import folder_of, marked, snapshot_of, without_meta
from drystone.testing.history import History, Row
from drystone.testing.invariants import BrokenInvariantError, Realm, read, takes
from drystone.testing.model import replaced
from drystone.testing.writers import Output
from drystone.timeline.blocks import Block
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve

ROW_BYTES = 100


@dataclass(slots=True)
class Lifecycle:
    """The stream: its history, which blocks are marked since when (ms), and `half` blocks, which have no meta.json.

    `seen` and `pairs` are what any reader has ever been able to read, and all that was ever known to be replaced: the
    truth that reads are held against, whatever has been deleted since.
    """

    policy: CompactionPolicy
    history: History = field(default_factory=History)
    marks: dict[str, int] = field(default_factory=dict)
    half: dict[str, Block] = field(default_factory=dict)
    seen: set[tuple[Realm, str]] = field(default_factory=set)
    pairs: frozenset[Replacement] = frozenset()

    @property
    def now(self) -> int:
        """The time in ms."""
        return self.history.now

    def wait(self, ms: int) -> None:
        """Let time go by, and note what has become readable meanwhile."""
        self.history.now += ms
        for blocks in self.history.ready_at(self.now).values():
            realm = (blocks[0].generation, blocks[0].resolution)
            self.seen.update((realm, source) for source in blocks[0].sources)
        self.pairs |= self.history.pairs_at(self.now)

    def snapshot(self) -> Snapshot:
        """Observe."""
        whole = [self._folder(block) for block in self.history.blocks]
        half = [without_meta(self._folder(block)) for block in self.half.values()]
        return snapshot_of(whole + half, self.now, edits=self.history.edits)

    def timeline(self) -> Timeline:
        """Observe and resolve."""
        return resolve(self.snapshot(), self.policy.times)

    def _folder(self, block: Block) -> Folder:
        folder = folder_of(block)
        return marked(folder, self.marks[block.ulid]) if block.ulid in self.marks else folder

    def plan_compaction(self, kind: str) -> tuple[Plan, list[Recipe]]:
        """Plan, and work out what each merge would do, as of now."""
        snapshot = self.snapshot()
        timeline = resolve(snapshot, self.policy.times)
        name = self.history.new_ulid(self.now)
        if kind == "rewrite":
            seen = Seen(snapshot, timeline, self.policy.times, name)
            plan = plan_rewrite(seen, self.policy, 1, dict(self._taken(snapshot, timeline)))
        else:
            plan = (plan_minor if kind == "minor" else plan_major)(snapshot, timeline, self.policy, name)
        found = (recipe_for(merge, snapshot, timeline) for merge in plan.merges)
        return plan, [recipe for recipe in found if isinstance(recipe, Recipe)]

    def _taken(self, snapshot: Snapshot, timeline: Timeline) -> Iterator[tuple[str, int]]:
        """Yield how many rows of each block that is read are erased, as looking through it would tell."""
        for ulid, edits in unapplied(snapshot, timeline):
            yield ulid, sum(any(takes(edit, row) for edit in edits) for row in self.history.rows[ulid])

    def erased_for_good(self, rounds: int = 10) -> None:
        """Let the lifecycle settle, and rewrite, until there is nothing left to drop.

        Raises BrokenInvariantError if a block then still holds a row that an erasure or a retirement took, or if an
        erasure is not known to be complete.
        """
        self.settle()
        while rounds and self._compact("rewrite").actions:
            self.settle()
            rounds -= 1
        edits = [edit for edit in self.history.edits if not isinstance(edit, Expire)]
        rows = {row for block in self.history.blocks for row in self.history.rows[block.ulid]}
        back: list[object] = [row for row in rows if self.history.removed_by(edits, row, self.pairs)]
        snapshot, timeline = self.snapshot(), self.timeline()
        clear = frozenset(ulid for ulid, rows in self._taken(snapshot, timeline) if not rows)
        for edit in edits:
            if isinstance(edit, Erase):
                back += check_erasure(snapshot, timeline, self.policy.times, edit, clear).left
        if back:
            raise BrokenInvariantError(f"still there: {back}")

    def upload(self, recipe: Recipe, output: Output | None = None) -> None:
        """Upload the outputs of a merge, however long ago it was worked out; `output`: what goes wrong with that."""
        output = replace(output or Output(), size=recipe.merge.outputs)
        rows = [row for each in recipe.inputs for row in self._kept(each, recipe)]
        group = self.history.new_ulid(self.now)
        indexes = [index for index in range(output.size) if index not in output.lost]
        for index in (*indexes, *sorted(output.twins)):
            part = tuple(rows[index :: output.size])
            block = Block(
                ulid=self.history.new_ulid(self.now),
                min_time=recipe.min_time,
                max_time=recipe.max_time,
                sources=recipe.sources,
                touched=self.now,
                group=group,
                group_size=output.size,
                group_index=index,
                generation=recipe.generation,
                rewrite=recipe.rewrite,
                edits=recipe.edits,
                retires=recipe.retires,
                granularity=recipe.chunk.granularity,
                level=recipe.level,
                rows=len(part),
                size=1000 + ROW_BYTES * len(part),
            )
            self.add(replace(block, group=block.ulid) if output.size == 1 and not output.twins else block, part)

    def _kept(self, each: Input, recipe: Recipe) -> Iterable[Row]:
        for row in self.history.rows.get(each.ulid, ()):
            dropped = row.source in each.duplicates or row.source in recipe.gone
            if not dropped and not any(takes(edit, row) for edit in each.edits):
                yield row

    def add(self, block: Block, rows: Collection[Row]) -> None:
        """Add a block with its rows."""
        self.history.blocks.append(block)
        self.history.rows[block.ulid] = rows

    def plan_removal(self, kind: str) -> Plan:
        """Plan what to mark, or what to delete."""
        snapshot = self.snapshot()
        planner = plan_marks if kind == "mark" else plan_sweep
        timeline = resolve(snapshot, self.policy.times)
        return planner(snapshot, timeline, self.policy.times, self.history.new_ulid(self.now))

    def act(self, action: Mark | Unmark | Delete, *, half: bool = False) -> None:
        """Do what a remover does, with its second look; `half`: it dies when a block's meta.json is deleted."""
        if action.ulid not in {block.ulid for block in self.history.blocks} | self.half.keys():
            return
        match action:
            case Unmark():
                self.marks.pop(action.ulid, None)
            case Mark(needs=needs) if self._stand(needs):
                self.marks.setdefault(action.ulid, -(-self.now // 1000) * 1000)
            case Delete(kind="marked", needs=needs) if self._stand(needs):
                if action.ulid in self.marks and self.marks[action.ulid] + self.policy.times.delete_delay <= self.now:
                    self._delete(action.ulid, half=half)
            case Delete(kind="unfinished" | "partial") if action.ulid in self.half:
                self._delete(action.ulid, half=False)

    def _stand(self, needs: Collection[str]) -> bool:
        """Whether all these blocks are whole and unmarked."""
        whole = {block.ulid for block in self.history.blocks}
        return all(ulid in whole and ulid not in self.marks for ulid in needs)

    def _delete(self, ulid: str, *, half: bool) -> None:
        found = [block for block in self.history.blocks if block.ulid == ulid]
        self.history.blocks = [block for block in self.history.blocks if block.ulid != ulid]
        if half:
            self.half |= {block.ulid: block for block in found}
            return
        self.half.pop(ulid, None)
        self.marks.pop(ulid, None)

    def check(self) -> Timeline:
        """Return the timeline; raise BrokenInvariantError unless it shows each row once that was ever readable.

        Less those that edits and replacements have taken away, whatever has become of who said so.
        """
        timeline = self.timeline()
        got = read(self.history, timeline)
        due = self._due()
        if got != due:
            raise BrokenInvariantError(f"too often, or at all: {dict(got - due)}; missing: {dict(due - got)}")
        if timeline.damage:
            raise BrokenInvariantError(f"damage: {timeline.damage}")
        return timeline

    def _due(self) -> Counter[tuple[Realm, Row]]:
        gone = replaced(self.pairs)
        return Counter(
            (realm, row)
            for realm, source in self.seen
            if source not in gone
            for row in self.history.all_rows(source)
            if not self.history.removed_by(self.history.edits, row, self.pairs, realm[1])
        )

    def settle(self, rounds: int = 40) -> None:
        """Run the lifecycle, while nobody writes, until it has nothing left to do.

        Raises BrokenInvariantError if a reader is hurt on the way, if it does not come to rest, or if overlapped,
        partial or marked blocks are left then: but for one that alone tells of a replacement of rows that others have.
        """
        for _ in range(rounds):
            self.wait(self.policy.times.sync_delay)
            plans = [self._compact("minor"), self._compact("major"), self._remove("mark")]
            self.wait(self.policy.times.group_timeout)
            plans.append(self._remove("sweep"))
            self.check()
            if not any(plan.actions for plan in plans):
                self._check_tidy()
                return
        raise BrokenInvariantError(f"not at rest after {rounds} rounds: {[plan.actions for plan in plans]}")

    def _check_tidy(self) -> None:
        timeline = self.timeline()
        support = Support(self.snapshot(), timeline)
        superseded = [timeline.groups[name] for name in (*timeline.covered, *timeline.out)]
        left = [group.id for group in superseded if not support.keeps_replaced_away(group)]
        left += [*timeline.incomplete, *timeline.pending, *timeline.twins, *self.marks, *self.half]
        if left:
            raise BrokenInvariantError(f"left behind: {left}")

    def _compact(self, kind: str) -> Plan:
        plan, recipes = self.plan_compaction(kind)
        for recipe in recipes:
            self.upload(recipe)
        self.check()
        self.wait(self.policy.times.sync_delay)
        return plan

    def _remove(self, kind: str) -> Plan:
        plan = self.plan_removal(kind)
        for action in plan.actions:
            if not isinstance(action, Mark | Unmark | Delete):
                raise BrokenInvariantError(f"a {kind} plan has {action}")
            self.act(action)
        self.check()
        return plan


def new_source(life: Lifecycle, low: int, high: int) -> str:
    """Return a new source, planned now, whose rows lie in [low, high)."""
    source = ulids.derive(life.now, "source", str(len(life.history.ranges)))
    life.history.ranges[source] = (low, high)
    return source


def upload_source(life: Lifecycle, source: str, retires: frozenset[Replacement] = frozenset()) -> None:
    """Upload the rows of a source as a block of its own."""
    low, high = life.history.ranges[source]
    rows = tuple(sorted(life.history.all_rows(source)))
    ulid = life.history.new_ulid(life.now)
    block = Block(
        ulid=ulid,
        min_time=low,
        max_time=high,
        sources=frozenset({source}),
        touched=life.now,
        group=ulid,
        retires=retires,
        rows=len(rows),
        size=1000 + ROW_BYTES * len(rows),
    )
    life.add(block, rows)
