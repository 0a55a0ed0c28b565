"""Planted violations: each breaks one rule of the design, in this process only, and a simulated life must notice.

A plant that no seed catches would mean that nobody watches its rule. Some come with what they need to show: sleepy
programs, leisurely readers, another tool. See docs/explanation/simulation.md for the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from drystone import ulids
from drystone.block import keys, states
from drystone.block.edits import Edit, Retire
from drystone.block.folder import Folder
from drystone.block.marks import DELETION_MARK, DeletionMark
from drystone.block.meta import META_FILE, Meta, Replacement
from drystone.block.states import State, Times
from drystone.bucket import Bucket
from drystone.clock import Clock
from drystone.engine import compact as compact_outputs
from drystone.engine import recipe, remove, second_look, upload
from drystone.engine import repair as repairing
from drystone.engine.recipe import Recipe
from drystone.engine.second_look import SecondLook
from drystone.engine.upload import Origin
from drystone.ingest import blocks
from drystone.plan import removal
from drystone.plan.model import Delete, Merge
from drystone.plan.removal import Justification
from drystone.plan.support import Support
from drystone.reader import view
from drystone.rows.writer import Built
from drystone.testing.simulation import actors, life, readers, repairs, world
from drystone.testing.simulation.changes import changed
from drystone.testing.simulation.truth import Truth
from drystone.timeline import cover, gone, groups, timeline, visible
from drystone.timeline.blocks import Block
from drystone.timeline.gone import Gone
from drystone.timeline.groups import Group
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline
from drystone.verbs import compact

Change = Callable[[object, str, object], None]
Action = Callable[[Change], None]


@dataclass(frozen=True, slots=True)
class Plant:
    """A violation: its name, the rule that it breaks, and how it is planted."""

    name: str
    rule: str
    act: Action


PLANTS: dict[str, Plant] = {}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a violation for as long as the block runs; "" plants nothing."""
    with ExitStack() as stack:

        def change(owner: object, attribute: str, value: object) -> None:
            stack.enter_context(changed(owner, attribute, value))

        if name:
            PLANTS[name].act(change)
        yield


def _plant(rule: str) -> Callable[[Action], Action]:
    def register(act: Action) -> Action:
        name = act.__name__.removeprefix("_").replace("_", "-")
        PLANTS[name] = Plant(name, rule, act)
        return act

    return register


@_plant("rule 8: deleteDelay after the mark")
def _no_delete_delay(change: Change) -> None:
    change(life, "REMOVALS", (world.MINUTE, 3 * world.MINUTE))
    change(readers, "LEISURE", (2,))
    real = states.state

    def state(folder: Folder, now: int, times: Times, *, overlapped: bool = False) -> State:
        return real(folder, now, replace(times, delete_delay=0), overlapped=overlapped)

    before = removal.justified_before

    def justified_before(snapshot: Snapshot, times: Times, at: int) -> frozenset[str]:
        return before(snapshot, times, at + times.delete_delay)

    change(removal, "state", state)
    change(removal, "justified_before", justified_before)
    change(remove, "_not_due", lambda *_: "")


@_plant("rule 6: never marked before the replacement is ready")
def _marked_before_ready(change: Change) -> None:
    change(world, "WEATHERS", (world.SLEEPY,))
    real = removal.justify

    def justify(snapshot: Snapshot, found: Timeline, times: Times) -> dict[str, Justification]:
        early = dict(real(snapshot, found, times))
        for each in (*found.pending.values(), *found.incomplete.values()):
            for group in found.visible.groups:
                if group.sources <= each.sources:
                    early |= dict.fromkeys((block.ulid for block in group.blocks), Justification("covered soon"))
        return early

    change(removal, "justify", justify)


@_plant("rule 7: a marked cover justifies no deletion")
def _marked_cover(change: Change) -> None:
    change(actors, "MARKINGS", (10 * world.MINUTE,))
    change(life, "TOOLS", (1,))
    change(Support, "group", lambda self, name: tuple(b.ulid for b in self._timeline.groups[name].members))
    change(remove, "_unmet", lambda *_: "")


@_plant("the remover asks again: a second look right before each deletion")
def _no_second_look(change: Change) -> None:
    change(life, "TOOLS", (1,))
    change(world, "WEATHERS", (world.SLEEPY,))
    change(remove, "_unmet", lambda *_: "")
    change(remove, "_not_due", lambda *_: "")
    change(remove, "_guarded", lambda *_: "")


@_plant("the remover asks again: whether the files of what supersedes a block are there")
def _files_unseen(change: Change) -> None:
    change(life, "ACCIDENTS", (repairs.lose_while_they_sleep,))
    change(life, "_LAZY", (1,))
    change(world, "WEATHERS", (world.SLEEPY,))

    class Believed(Folder):
        def missing_files(self) -> tuple[str, ...]:
            return ()

    change(second_look, "Folder", Believed)


@_plant("covering: one group must have all sources")
def _partial_cover(change: Change) -> None:
    change(world, "WEATHERS", (world.SLEEPY,))
    change(life, "REMOVALS", (world.MINUTE, 3 * world.MINUTE))
    real = removal.justify

    def justify(snapshot: Snapshot, found: Timeline, times: Times) -> dict[str, Justification]:
        partly = dict(real(snapshot, found, times))
        for group in found.visible.groups:
            for other in found.visible.groups:
                if other.id != group.id and len(other.sources) >= len(group.sources) and other.sources & group.sources:
                    why = Justification(f"covered by group {other.id}", tuple(block.ulid for block in other.members))
                    partly |= dict.fromkeys((block.ulid for block in group.blocks), why)
        return partly

    change(removal, "justify", justify)


@_plant("rule 3: meta.json last")
def _meta_first(change: Change) -> None:
    def upload_block(bucket: Bucket, built: Built, origin: Origin, _deadline_ms: int, clock: Clock) -> Meta:
        began = clock()
        ulid = ulids.new(began)
        meta, _ = upload._describe(ulid, built, origin, began)  # noqa: SLF001 - a plant is put inside
        bucket.create(keys.block(origin.stream, ulid, META_FILE), meta.to_json())
        for file in built.files:
            bucket.upload(keys.block(origin.stream, ulid, file.rel_path), built.folder / file.rel_path)
        return meta

    change(compact_outputs, "upload_block", upload_block)
    change(blocks, "upload_block", upload_block)


@_plant("groups: one member per index counts")
def _twins_are_members(change: Change) -> None:
    change(world, "TWICE", 2)
    real = groups._assemble  # noqa: SLF001 - a plant is put inside

    def assemble(name: str, found: list[Block], now: int, sync_delay: int) -> Group:
        group = real(name, found, now, sync_delay)
        twins = tuple(block for block in group.others if block.loadable)
        return replace(group, members=(*group.members, *twins)) if group.complete else group

    change(groups, "_assemble", assemble)
    change(Group, "complete", property(lambda self: len(self.members) >= self.pattern.group_size))


@_plant("damage: an incomplete group is removed when it is older than group_timeout")
def _running_is_crashed(change: Change) -> None:
    change(world, "WEATHERS", (world.SLEEPY,))
    real = removal.justify
    change(removal, "justify", lambda found, line, times: real(found, line, replace(times, group_timeout=0)))


@_plant("edits: a retirement is an edit, and no mark")
def _retired_by_a_mark(change: Change) -> None:
    change(life, "OPERATORS", (1,))

    def retire(actor: actors.Actor, source: str) -> None:
        now, truth = actor.world.scheduler.now, actor.world.truth
        truth.edits[source] = (Retire(id=source, reason="", author="", time=now, sources=(source,)), now)
        for block in list(truth.blocks.values()):
            if source in block.sources and block.whole:
                note = DeletionMark(id=block.ulid, details="retired", deletion_time=now // 1000)
                actor.world.true_bucket.put(keys.block(world.STREAM, block.ulid, DELETION_MARK), note.to_json())

    change(actors, "retire", retire)


@_plant("covering: of equal groups the one with more edits, then the rewrite wins")
def _weak_rewrite(change: Change) -> None:
    change(life, "OPERATORS", (1,))
    real = cover.preference
    change(cover, "preference", lambda group: (real(group)[0], 0, 0, real(group)[3]))


@_plant("edits: compaction applies them for good")
def _forgotten_edit(change: Change) -> None:
    change(life, "OPERATORS", (1,))
    real = recipe.recipe_for

    def recipe_for(merge: Merge, snapshot: Snapshot, line: Timeline) -> Recipe | str:
        found = real(merge, snapshot, line)
        if isinstance(found, str):
            return found
        return replace(found, inputs=tuple(replace(each, edits=()) for each in found.inputs))

    change(compact, "recipe_for", recipe_for)


@_plant("times: a read ends within deleteDelay less the lag")
def _long_reads(change: Change) -> None:
    change(readers, "LEISURE", (2,))
    change(Truth, "read_timeout", property(lambda self: 4 * self.times.delete_delay))


@_plant("damage: readers never silently return less")
def _damage_is_no_rows(change: Change) -> None:
    change(life, "ACCIDENTS", (repairs.lose_and_restore,))
    change(timeline, "find_damage", lambda *_: [])
    change(view, "_check_damage", lambda *_, **__: None)


@_plant("rule 2: a Fresh block is not read")
def _fresh_is_ready(change: Change) -> None:
    change(Block, "ready", lambda self, _now, _sync_delay: self.loadable)


@_plant("groups: visible as a whole or not at all")
def _incomplete_is_ready(change: Change) -> None:
    change(world, "WEATHERS", (world.SLEEPY,))
    change(Group, "complete", property(lambda self: bool(self.members)))


@_plant("owners: a source that two visible groups share is read from one")
def _owners_both_read(change: Change) -> None:
    change(cover, "_settle_owners", lambda _result: None)


@_plant("edits: readers apply at once what a block has not applied")
def _edits_wait(change: Change) -> None:
    change(life, "OPERATORS", (1,))
    change(visible, "pending_edits", lambda *_: ())


@_plant("guards: nothing is deleted under its writer")
def _partial_at_once(change: Change) -> None:
    change(removal, "is_idle", lambda *_: True)
    real = remove.delete

    def delete(look: SecondLook, action: Delete, delete_delay: int) -> str:
        return real(look, action, 0 if action.kind == "partial" else delete_delay)

    change(remove, "delete", delete)


@_plant("rule 8: meta.json is deleted first")
def _meta_deleted_last(change: Change) -> None:
    real = remove.deletion_order
    change(remove, "deletion_order", lambda names: real(names)[::-1])


def _busy_people(change: Change) -> None:
    change(life, "OPERATORS", (1,))
    change(repairs, "REPAIRS", ("drop-rows", "reupload"))
    change(repairs, "RESTS", (5 * world.MINUTE, 20 * world.MINUTE))


@_plant("replacing: until the replacement is ready nothing changes")
def _replaced_too_soon(change: Change) -> None:
    _busy_people(change)
    known: list[Group] = []
    real, real_gone = groups.group_blocks, gone.find_gone

    def group_blocks(blocks: Iterable[Block], at: int, sync_delay: int) -> tuple[dict[str, Group], dict[str, str]]:
        found = real(blocks, at, sync_delay)
        known[:] = found[0].values()
        return found

    def find_gone(_ready: Iterable[Group], edits: Iterable[Edit]) -> Gone:
        return real_gone(known, edits)

    change(timeline, "group_blocks", group_blocks)
    change(timeline, "find_gone", find_gone)


@_plant("replacing: of two replacements of one root the newest plan wins")
def _older_plan_wins(change: Change) -> None:
    _busy_people(change)

    def successors(replacements: Iterable[Replacement]) -> dict[str, str]:
        pairs = sorted(replacements, key=lambda pair: pair.by, reverse=True)
        oldest = {pair.root: pair.by for pair in pairs}
        return oldest | {pair.by: oldest[pair.root] for pair in pairs if pair.by != oldest[pair.root]}

    change(gone, "successors", successors)


@_plant("replacing: compaction inherits what replaces what")
def _forgotten_replacement(change: Change) -> None:
    _busy_people(change)
    change(Support, "keeps_replaced_away", lambda *_: False)
    real = recipe.recipe_for

    def recipe_for(merge: Merge, snapshot: Snapshot, line: Timeline) -> Recipe | str:
        found = real(merge, snapshot, line)
        return found if isinstance(found, str) else replace(found, retires=frozenset())

    change(compact, "recipe_for", recipe_for)


@_plant("replacing: compaction drops the rows of what is replaced")
def _replaced_rows_stay(change: Change) -> None:
    _busy_people(change)
    real = recipe.recipe_for

    def recipe_for(merge: Merge, snapshot: Snapshot, line: Timeline) -> Recipe | str:
        found = real(merge, snapshot, line)
        return found if isinstance(found, str) else replace(found, gone=frozenset())

    change(compact, "recipe_for", recipe_for)


@_plant("replacing: what replaces a retired source is retired with it")
def _outlives_a_retirement(change: Change) -> None:
    _busy_people(change)
    change(actors, "EDITS", ("retire",))
    change(actors, "RESTS", (5 * world.MINUTE, 10 * world.MINUTE))
    change(gone, "standing_for", lambda *_: frozenset())


@_plant("replacing: half a replacement is not taken for done")
def _half_is_done(change: Change) -> None:
    _busy_people(change)
    change(repairs, "REPAIRS", ("reupload",))
    change(
        repairing,
        "_uploaded",
        lambda line: frozenset[str]().union(*(group.sources for group in line.groups.values())),
    )
