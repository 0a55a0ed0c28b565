"""Readers of a simulated life: the real scan, which takes its time, held against what is true."""

from __future__ import annotations

from contextlib import closing

from drystone.errors import BucketError, DamagedStreamError, DrystoneError
from drystone.reader import scan
from drystone.testing.invariants import BrokenInvariantError
from drystone.testing.simulation.actors import HOUR, Actor
from drystone.testing.simulation.facts import Read, Row
from drystone.testing.simulation.scheduler import DeadProcessError, Life
from drystone.testing.simulation.world import MINUTE, STREAM, Client, World
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import resolve
from drystone.tracker import ListingTracker

LEISURE = (0, 0, 2)
"""Into how many parts a read stretches its time; 0: it is in a hurry."""


class _Watched:
    """A tracker that notes which blocks a reader has seen, and so may still be reading."""

    def __init__(self, world: World, client: Client, read: Read) -> None:
        self._times = world.times
        self._inner = ListingTracker(client.bucket, STREAM)
        self._read = read

    def observe(self, now: int) -> Snapshot:
        """See `Tracker.observe`."""
        snapshot = self._inner.observe(now)
        self._read.looked.append(now)
        visible = resolve(snapshot, self._times, now).visible.groups
        self._read.blocks = {block.ulid for group in visible for block in group.members}
        return snapshot


def read(actor: Actor) -> None:
    """Read the whole stream again and again, in a hurry or at leisure."""
    while actor.goes_on():
        actor.wait(MINUTE, 10 * MINUTE, 30 * MINUTE)
        read_once(actor)


def read_once(actor: Actor) -> bool:
    """Read the whole stream once; tell whether it could be read. Raises BrokenInvariantError."""
    world = actor.world
    strand = world.scheduler.current
    actor.runs += 1
    client = world.client(actor.name, actor.offset)
    reading = Read(client.name, world.scheduler.now, pinned=world.choices.pick((False, False, True)))
    world.truth.reads.append(reading)
    try:
        rows = _scan(world, client, reading)
    except DeadProcessError:
        if world.scheduler.closing:
            raise
        strand.life = Life()
        return False
    except DrystoneError as error:
        _judge(world, client, reading, error)
        return False
    finally:
        world.truth.reads.remove(reading)
    world.truth.check_read(reading, rows, world.scheduler.now)
    world.around.tally["reads"] += 1
    return True


def _scan(world: World, client: Client, reading: Read) -> list[Row]:
    rows: list[Row] = []
    watched = _Watched(world, client, reading)
    last = reading.began + world.truth.read_timeout
    leisure = world.choices.pick(LEISURE)
    batches = scan(client.bucket, STREAM, pin=reading.pinned, tracker=watched, now=client.clock)
    with closing(batches):  # type: ignore[type-var] # a generator, which a dead reader must not leave open
        for batch in batches:
            for row in batch.to_pylist():
                rows.append(Row(row["number"], round(row["time"].timestamp() * 1000), row["kind"]))  # noqa: PERF401
            left = last - world.scheduler.now
            if leisure and left > 0:
                world.scheduler.pause(left // leisure)
            elif leisure and reading.pinned:
                world.scheduler.pause(HOUR // 4)
    return rows


def _judge(world: World, client: Client, reading: Read, error: DrystoneError) -> None:
    """Raise BrokenInvariantError unless the design lets a reader see this error."""
    now = world.scheduler.now
    late = now > reading.began + world.truth.read_timeout
    overdue = late and not reading.pinned
    robbed = world.truth.struck >= reading.began or world.truth.may_see_damage(reading.began)
    if isinstance(error, DamagedStreamError):
        if overdue or robbed:
            world.around.tally["reads told of damage" if not overdue else "reads out of time"] += 1
            return
    elif isinstance(error, BucketError) and (late or client.bucket.faults or world.times.max_lag or robbed):
        world.around.tally["reads that failed"] += 1
        return
    raise BrokenInvariantError(f"1: {reading.name} could not read: {error}")
