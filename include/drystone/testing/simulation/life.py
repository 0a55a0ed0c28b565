"""One life of a stream, from one seed: everybody at work in bad weather, then the lifecycle alone until it rests."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Self

from drystone import ulids
from drystone.testing.invariants import BrokenInvariantError
from drystone.testing.simulation.actors import (
    HOUR,
    Actor,
    append,
    compact_now,
    mark_wrongly,
    new_file,
    operate,
    remove_now,
    upload_file,
)
from drystone.testing.simulation.changes import changed
from drystone.testing.simulation.choices import Choices
from drystone.testing.simulation.faulty import CALM
from drystone.testing.simulation.readers import read, read_once
from drystone.testing.simulation.repairs import (
    append_astray,
    clear_up,
    lose_and_adopt,
    lose_and_restore,
    lose_while_they_sleep,
    repair,
)
from drystone.testing.simulation.world import BEGIN, MINUTE, STREAM, World
from drystone.timeline.timeline import resolve
from drystone.tracker import ListingTracker, kept

HOURS = 8
"""How long everybody is at work, unless something else is asked for."""
OPERATORS = (0, 1)
TOOLS = (0, 0, 1)
STRAYS = (0, 0, 0, 1)
"""Of so many lives one has such an actor."""
ACCIDENTS: tuple[Callable[[Actor], None] | None, ...] = (
    *(None, None, None, None, None, None),
    *(lose_and_restore, lose_and_adopt, lose_while_they_sleep),
)
REMOVALS = (5 * MINUTE, 20 * MINUTE, 50 * MINUTE)
"""How long a remover rests between two rounds, ms."""
_LAZY = (1, 1, 1, 6, 24)
"""How many times as long they rest in a life."""
_ROUNDS = 40
_OFFSETS = (0, 0, -20_000, 20_000)
_ASTRAY = 5 * HOUR


@dataclass
class Lived:
    """How a life went: what happened how often, which crash points were passed, and which choices were unusual."""

    seed: int
    failure: str = ""
    hours: int = 0
    tally: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    unusual: tuple[int, ...] = ()


def live(seed: int, hours: int = HOURS, keep: Collection[int] | None = None) -> Lived:
    """Let a stream live; what breaks an invariant, or is a bug, is reported, and not raised.

    `hours`: how long writers and operators are at work. `keep`: which unusual choices to keep, by their numbers.
    """
    choices = Choices(seed, keep)
    folder = Path(tempfile.mkdtemp(prefix="drystone-life-"))
    lived = Lived(seed)
    with _determined(seed):
        world = World(choices, folder)
        try:
            _populate(world, hours)
            world.scheduler.run()
            _settle(world)
        except Exception as error:  # noqa: BLE001 - the boundary: whatever ends a life is how it went
            lived.failure = f"{type(error).__name__}: {error}"
        finally:
            world.scheduler.close()
            shutil.rmtree(folder)
    lived.hours = (world.scheduler.now - BEGIN) // HOUR
    lived.tally, lived.points, lived.unusual = world.around.tally, world.around.points, tuple(choices.unusual)
    lived.tally["lags seen"] += world.lag.seen_late
    return lived


@contextmanager
def _determined(seed: int) -> Iterator[None]:
    """Take from the library what else would differ from run to run: the random part of ids, and parallel GETs."""
    new, dice = ulids.new, Random(seed)  # noqa: S311 - to be replayed
    with ExitStack() as stack:
        stack.enter_context(changed(ulids, "new", lambda now_ms, entropy=dice.randbytes: new(now_ms, entropy)))
        stack.enter_context(changed(kept, "ThreadPoolExecutor", _InLine))
        yield


class _InLine:
    """A pool of threads that has none."""

    def __init__(self, _workers: int) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, function: Callable[[str], object], items: Collection[str]) -> Iterator[object]:
        return map(function, items)


def _populate(world: World, hours: int) -> None:
    """Start everybody; they stop to begin anything new after so many hours."""
    choices = world.choices
    files = [new_file(world, number) for number in range(1, 2 * hours + 3)]
    shared = files[choices.pick(range(len(files)))]
    lazy = choices.pick(_LAZY)
    acts: list[tuple[str, Callable[[Actor], None]]] = [
        ("appender", lambda actor: append(actor, files[::2])),
        ("second appender", lambda actor: append(actor, [*files[1::2], shared])),
        ("compactor", _compact),
        ("second compactor", _compact),
        ("remover", partial(_remove, lazy=lazy)),
        ("second remover", partial(_remove, lazy=lazy)),
        ("reader", read),
        ("second reader", read),
    ]
    if choices.pick(OPERATORS):
        acts += [("operator", operate), ("repairer", repair)]
    if choices.pick(TOOLS):
        acts.append(("tool", mark_wrongly))
    if accident := choices.pick(ACCIDENTS):
        acts.append(("accident", accident))
    world.until = world.scheduler.now + hours * HOUR
    actors = [(Actor(world, name, choices.pick(_OFFSETS)), act) for name, act in acts]
    if choices.pick(STRAYS):
        late = [new_file(world, len(files) + 1)]
        actors.append((Actor(world, "appender astray", _ASTRAY), partial(append_astray, files=late)))
    for actor, act in actors:
        world.scheduler.start(actor.name, partial(act, actor), wait=2 * MINUTE)


def _compact(actor: Actor) -> None:
    while actor.goes_on():
        actor.wait(5 * MINUTE, 20 * MINUTE, 50 * MINUTE)
        compact_now(actor, actor.world.choices.pick(("minor", "minor", "major")))


def _remove(actor: Actor, lazy: int) -> None:
    while actor.goes_on():
        actor.wait(*(lazy * rest for rest in REMOVALS))
        remove_now(actor, "mark")
        actor.wait(MINUTE, 5 * MINUTE, 20 * MINUTE)
        remove_now(actor, "sweep")


def _settle(world: World) -> None:
    """Invariant 5: writers stop, faults end, and the lifecycle comes to rest, with everything read exactly once."""
    world.around.weather = CALM
    # What shares sources and exceeds the limits together is left to the operator, who raises them.
    rules = world.config.compaction.model_copy(update={"max_group_bytes": 1 << 30})
    world.config = world.config.model_copy(update={"compaction": rules})
    actor = Actor(world, "lifecycle")
    world.scheduler.start("lifecycle", partial(_come_to_rest, actor))
    world.scheduler.run()
    _check_rest(world)


def _come_to_rest(actor: Actor) -> None:
    world = actor.world
    pause = world.scheduler.pause
    quiet = 0
    for _ in range(_ROUNDS):
        for path in sorted(world.folder.glob("*.json")):
            actor.run("uploads", lambda job, path=path: upload_file(job, world, path))  # type: ignore[misc]
        busy = compact_now(actor, "minor")
        pause(world.times.sync_delay + MINUTE)
        busy |= compact_now(actor, "major")
        pause(world.times.sync_delay + MINUTE)
        busy |= remove_now(actor, "mark")
        pause(world.times.delete_delay + 2 * MINUTE)
        busy |= remove_now(actor, "sweep")
        busy |= clear_up(actor)
        quiet = 0 if busy else quiet + 1
        if quiet == 1:
            pause(world.times.group_timeout + HOUR)
        if quiet == 2:  # noqa: PLR2004 - it rested, and goes on resting
            read_once(actor)
            return
    raise BrokenInvariantError(f"5: the lifecycle is not at rest after {_ROUNDS} rounds")


def _check_rest(world: World) -> None:
    now = world.scheduler.now
    snapshot = ListingTracker(world.true_bucket, STREAM).observe(now)
    timeline = resolve(snapshot, world.times)
    left = [*timeline.covered, *timeline.out, *timeline.twins, *timeline.incomplete, *timeline.pending]
    left += [ulid for ulid, folder in snapshot.folders.items() if folder.has_mark or not folder.has_meta]
    left += [source for holders in timeline.holders.values() for source, _ in holders.shared()]
    if left:
        raise BrokenInvariantError(f"5: left behind at rest: {sorted(set(left))}")
    if stay := world.rewritten & snapshot.folders.keys():
        raise BrokenInvariantError(f"5: blocks whose rewrite never took effect: {sorted(stay)}")
    late = world.replaced - world.truth.settled.keys()
    if late := {source for source in late if world.truth.kept([source], before=now)}:
        raise BrokenInvariantError(f"5: replacements that were carried out, and never read: {sorted(late)}")
    if timeline.damage:
        raise BrokenInvariantError(f"5: damage at rest: {timeline.damage}")
    rows = {row for rows in world.truth.files.values() for row in rows}
    planned = {row for rows in world.truth.rows.values() for row in rows}
    if not rows <= planned:
        raise BrokenInvariantError(f"5: never uploaded: {sorted(rows - planned)}")
    world.check()
