"""A lifecycle at random: every step is somebody's act, and after each a reader looks at the stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from drystone import ulids
from drystone.block.edits import Erase, Expire, Retire
from drystone.block.meta import Replacement
from drystone.block.predicates import Comparison
from drystone.block.states import Times
from drystone.config.model import Compaction, Granularities
from drystone.engine.recipe import Recipe
from drystone.plan.compaction import CompactionPolicy
from drystone.plan.model import Delete, Mark, Plan, Unmark
from drystone.testing.history import BEGIN, DAY, KINDS
from drystone.testing.invariants import BrokenInvariantError
from drystone.testing.lifecycle import Lifecycle, new_source, upload_source
from drystone.testing.writers import Output
from drystone.timeline.blocks import Block

_HOUR = 3_600_000
SMALL = Compaction.model_validate({"target_block_bytes": "2400B", "max_group_bytes": "60KB"})
"""Blocks of a dozen rows count as big."""


@dataclass(slots=True)
class Living:
    """A stream, and the runs that have looked at it and not acted yet: merges, and plans of the remover."""

    dice: Random
    life: Lifecycle
    merges: list[Recipe] = field(default_factory=list)
    removals: list[Plan] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def step(self) -> None:
        """Do one thing, let time go by, check what readers see."""
        name = self.dice.choice(USUAL)
        self.done.append(name)
        ACTS[name](self)
        times = self.life.policy.times
        self.life.wait(self.dice.choice([0, 1_000, times.sync_delay, times.delete_delay + 1_000, times.group_timeout]))
        self.life.check()


def new_life(rules: Compaction = SMALL) -> Lifecycle:
    """Return a stream of days that are rolled up to months, without a block."""
    life = Lifecycle(CompactionPolicy(rules, Granularities(ingest="day", major="month"), times=Times()))
    life.history.now = BEGIN + 60 * DAY
    return life


def live(seed: int, steps: int = 40) -> Lifecycle:
    """Return a stream after so many random steps; raise BrokenInvariantError, which names the seed, if one hurts."""
    living = Living(Random(seed), new_life())  # noqa: S311 - seeded, to be replayed
    try:
        for _ in range(steps):
            living.step()
    except BrokenInvariantError as error:
        error.add_note(f"seed {seed}, after {living.done}")
        raise
    return living.life


def _upload(living: Living) -> None:
    start = BEGIN + living.dice.randint(0, 3) * DAY + living.dice.randint(0, 11) * _HOUR
    upload_source(living.life, new_source(living.life, start, start + living.dice.randint(1, 12) * _HOUR))


def _upload_again(living: Living) -> None:
    history = living.life.history
    replacing = {pair.by for pair in living.life.pairs}
    firsts = [source for source in history.ranges if source not in replacing]
    if firsts:
        upload_source(living.life, living.dice.choice(firsts))


def _plan(living: Living) -> None:
    _, recipes = living.life.plan_compaction(living.dice.choice(["minor", "minor", "major", "rewrite"]))
    living.merges += recipes


def _merge(living: Living) -> None:
    """A merge ends: well, or after a retry, or half; its run may end once more."""
    if living.merges:
        recipe = living.dice.choice(living.merges)
        size, event = recipe.merge.outputs, living.dice.choice(["", "", "", "", "twin", "lost"])
        if not _knows_what_is_expired(living.life, recipe):
            event = ""
        one = frozenset({living.dice.randint(0, size - 1)})
        output = Output(twins=one if event == "twin" else frozenset(), lost=one if event == "lost" else frozenset())
        living.life.upload(recipe, output)
        if living.dice.randint(0, 3):
            living.merges.remove(recipe)


def _knows_what_is_expired(life: Lifecycle, recipe: Recipe) -> bool:
    """Whether no source of the merge was expired since it was planned.

    If one was, and its last block is gone, nobody can tell a part of the merge from damage: a person has to look.
    """
    return all(edit.id in recipe.edits for edit in life.history.edits if isinstance(edit, Expire))


def _plan_removal(living: Living) -> None:
    living.removals.append(living.life.plan_removal(living.dice.choice(["mark", "sweep"])))


def _remove(living: Living) -> None:
    """A remover acts on what it planned, if the plan still holds, and may die at any act."""
    if not living.removals:
        return
    plan = living.removals.pop(living.dice.randint(0, len(living.removals) - 1))
    if living.life.now >= plan.expires:
        return
    for action in plan.actions:
        fate = living.dice.randint(0, 9)
        if fate == 0:
            return
        if isinstance(action, Mark | Unmark | Delete):
            living.life.act(action, half=fate == 1)


def _mark_wrongly(living: Living) -> None:
    """Another tool marks a block."""
    if living.life.history.blocks:
        living.life.marks.setdefault(living.dice.choice(living.life.history.blocks).ulid, living.life.now)


def _die_uploading(living: Living) -> None:
    """A writer dies before the last file."""
    ulid = living.life.history.new_ulid(living.life.now)
    living.life.half[ulid] = Block(ulid, 0, 1, frozenset({ulid}), living.life.now, ulid)


def _replace(living: Living) -> None:
    """New rows for what is read now, in the same time range."""
    history, timeline = living.life.history, living.life.timeline()
    held = {source for visible in timeline.visible.values() for source in visible.group.sources - visible.excluded}
    if held:
        root = living.dice.choice(sorted(held))
        by = ulids.derive(max(living.life.now, ulids.time_of(root) + 1), root, str(len(history.ranges)))
        history.ranges[by] = history.ranges[root]
        above = timeline.gone.evidence([root])
        upload_source(living.life, by, frozenset({Replacement(root=root, by=by), *above}))


def _retire(living: Living) -> None:
    history = living.life.history
    if history.ranges:
        sources = living.life.timeline().gone.family([living.dice.choice(sorted(history.ranges))])
        name = history.new_ulid(living.life.now)
        history.edits.append(
            Retire(id=name, reason="", author="", time=living.life.now, sources=tuple(sorted(sources)))
        )


def _erase(living: Living) -> None:
    predicate = Comparison(column="kind", op="=", value=living.dice.choice(KINDS))
    name = living.life.history.new_ulid(living.life.now)
    edit = Erase(id=name, reason="", author="", time=living.life.now, predicate=predicate)
    living.life.history.edits.append(edit)


def _expire(living: Living) -> None:
    before = BEGIN + living.dice.choice([1, 6, 24]) * _HOUR
    name = living.life.history.new_ulid(living.life.now)
    living.life.history.edits.append(Expire(id=name, reason="", author="", time=living.life.now, before=before))


ACTS: dict[str, Callable[[Living], None]] = {
    "upload": _upload,
    "upload again": _upload_again,
    "plan a compaction": _plan,
    "merge": _merge,
    "plan a removal": _plan_removal,
    "remove": _remove,
    "mark wrongly": _mark_wrongly,
    "die uploading": _die_uploading,
    "replace": _replace,
    "retire": _retire,
    "erase": _erase,
    "expire": _expire,
}
"""All that can be done to a stream."""
_OFTEN = ("upload", "plan a compaction", "merge", "plan a removal", "remove")
USUAL = (*_OFTEN * 4, *ACTS)
"""A mixture in which the stream lives on."""
