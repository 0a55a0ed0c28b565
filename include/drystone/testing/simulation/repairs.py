"""People who repair a simulated stream: every repair verb, on the real code; and accidents that call for some."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from drystone.block import keys
from drystone.block.meta import META_FILE
from drystone.block.predicates import Comparison
from drystone.engine.job import Job
from drystone.engine.outcome import Outcome
from drystone.engine.plans import read_plan
from drystone.engine.reupload import configured_schema, read_rows, upload_replacement
from drystone.jobs import RepairRequest
from drystone.plan.model import Reupload
from drystone.testing.simulation.actors import HOUR, KINDS, Actor, append
from drystone.testing.simulation.facts import ACCIDENT, Row, TrueBlock
from drystone.testing.simulation.lagging import LaggingBucket
from drystone.testing.simulation.world import MINUTE, STREAM, World
from drystone.verbs import repair as verb

ATTIC = "attic"
"""The stream that a backup's blocks lie in."""
REPAIRS = ("rewrite", "drop-rows", "drop-rows", "reupload", "reupload", "partial", "partial", "malformed", "adopt")
RESTS = (5 * MINUTE, 20 * MINUTE, HOUR)
"""How long a person rests between two repairs, ms."""


def repair(actor: Actor) -> None:
    """Repair what needs it, and what does not, now and then."""
    while actor.goes_on():
        actor.wait(*RESTS)
        asked = _ask(actor.world, actor.world.choices.pick(REPAIRS))
        if asked is not None:
            repair_now(actor, asked)


def repair_now(actor: Actor, asked: RepairRequest) -> bool:
    """Plan a repair, perhaps wait, and carry the plan out; tell whether there was anything to do, or it failed."""
    world = actor.world
    planned = _run(actor, asked)
    if planned is None or planned.plan_key is None:
        return planned is None
    for batch in planned.batches:
        actor.wait(0, MINUTE, 20 * MINUTE)
        done = _run(actor, RepairRequest(plan_key=planned.plan_key, batch=batch.number))
        if done is not None and done.blocks:
            world.around.tally[f"repairs: {asked.kind}"] += 1
        if done is not None and not done.failures:
            _remember(world, asked, planned.plan_key)
    return bool(planned.batches)


def append_astray(actor: Actor, files: Sequence[Path]) -> None:
    """Be an appender whose clock is hours ahead, and the person who adopts its blocks, dated today."""
    append(actor, files)
    person = Actor(actor.world, "who sees it")
    for _ in range(4):
        actor.wait(MINUTE, 20 * MINUTE)
        if not repair_now(person, RepairRequest(kind="adopt", reason="misdated")):
            return


def lose_and_restore(actor: Actor) -> None:
    """Be an accident that takes an object away, and the person who puts it back from a backup hours later."""
    world = actor.world
    actor.wait(2 * HOUR, 4 * HOUR, 6 * HOUR)
    ulid = _some_block(world)
    if ulid is None:
        return
    key, raw = _lose_a_chunk(world, ulid)
    actor.wait(2 * HOUR, 5 * HOUR)
    _put_back(world, key, raw)


def lose_while_they_sleep(actor: Actor) -> None:
    """Be an accident at the worst moment: a remover sleeps over its plan, and what supersedes others is hit."""
    world = actor.world
    while actor.goes_on():
        actor.wait(MINUTE)
        if world.scheduler.asleep_until("remover") < world.scheduler.now + 7 * MINUTE:
            continue
        blocks = [block for block in world.truth.blocks.values() if _has_rows(block)]
        marked = [block for block in blocks if block.marked is not None]
        covers = sorted(
            block.ulid
            for block in blocks
            if block.marked is None and any(each.sources < block.sources for each in marked)
        )
        if covers:
            key, raw = _lose_a_chunk(world, world.choices.pick(covers))
            actor.wait(2 * HOUR, 5 * HOUR)
            _put_back(world, key, raw)
            return


def lose_and_adopt(actor: Actor) -> None:
    """Be an accident of which a backup knows, and the person who adopts the backup's blocks, until that has worked."""
    world = actor.world
    actor.wait(2 * HOUR, 4 * HOUR, 6 * HOUR)
    ulid = _some_block(world)
    if ulid is None:
        return
    group = world.truth.blocks[ulid].group
    _back_up(world, (block.ulid for block in world.truth.blocks.values() if block.group == group))
    _lose_a_chunk(world, ulid)
    world.backed_up = True
    actor.wait(10 * MINUTE, HOUR, 2 * HOUR)
    for _ in range(4):
        if not clear_up(actor):
            return
        actor.wait(30 * MINUTE, HOUR)


def clear_up(actor: Actor) -> bool:
    """Do what waits for a person, and tell whether anything did.

    That is to rewrite what compactions gave up, to adopt what a backup has and the stream lacks, to remove what is
    broken.
    """
    blocks = (block for block in actor.world.truth.blocks.values() if block.whole and block.marked is None)
    given_up = tuple(sorted(block.ulid for block in blocks if block.given_up))
    busy = bool(given_up) and repair_now(actor, RepairRequest(kind="rewrite", blocks=given_up, reason="given up"))
    if actor.world.backed_up:
        busy |= repair_now(actor, RepairRequest(kind="adopt", origin_stream=ATTIC, reason="restored"))
        busy |= repair_now(actor, RepairRequest(kind="malformed"))
    return busy


def _ask(world: World, kind: str) -> RepairRequest | None:
    """Return a request of this kind that makes sense now, if one does."""
    choices = world.choices
    if kind == "rewrite":
        whole = sorted(block.ulid for block in world.truth.blocks.values() if block.whole)
        return RepairRequest(kind=kind, blocks=(choices.pick(whole),), reason="asked for") if whole else None
    if kind in {"drop-rows", "reupload"}:
        known = sorted(source for source in world.truth.settled if world.truth.rows.get(source))
        if not known:
            return None
        source = choices.pick(known)
        if kind == "reupload":
            return RepairRequest(kind=kind, source=source, path=_correct(world, source), reason="asked for")
        number = choices.pick(world.truth.rows[source]).number
        one = Comparison(column="number", op="=", value=number)
        many = Comparison(column="kind", op="=", value=choices.pick(KINDS))
        return RepairRequest(kind=kind, where=choices.pick((one, one, many)), reason="asked for")
    return RepairRequest.model_validate({"kind": kind, "reason": "asked for" if kind == "adopt" else ""})


def _correct(world: World, source: str) -> str:
    """Write a file of a source's rows but one, which stands in a later hour perhaps, and a new one; return its name."""
    rows = list(world.truth.rows[source])
    moved = rows.pop(0)
    number = 100_000 + len(world.truth.corrections)
    rows.append(Row(number, moved.time + world.choices.pick((0, 0, HOUR)), moved.kind))
    path = world.folder / f"{number}.fixed"
    world.truth.corrections[path.name] = tuple(rows)
    lines = (
        {"time": f"{datetime.fromtimestamp(row.time / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}", "kind": row.kind}
        | {"number": row.number}
        for row in rows
    )
    path.write_text("\n".join(map(json.dumps, lines)))
    return path.name


def _run(actor: Actor, request: RepairRequest) -> Outcome | None:
    what = "plans" if request.plan_key is None else "repairs"

    def body(job: Job) -> Outcome:
        def upload(action: Reupload) -> list[str]:
            rows = read_rows(job, actor.world.folder / action.path)
            return upload_replacement(job, action, rows, configured_schema(job))

        return verb.run(job, request, actor.world.folder, upload)

    return actor.run(what, body)


def _remember(world: World, asked: RepairRequest, plan_key: str) -> None:
    """Note what must have come true at rest: which block must be gone, which replacements ready."""
    if asked.kind == "rewrite":
        world.rewritten.update(asked.blocks)
    plan = read_plan(world.true_bucket, plan_key)
    world.replaced.update(swap.by for action in plan.replaces for swap in action.swaps)
    world.replaced.update(action.by for action in plan.reuploads)


def _some_block(world: World) -> str | None:
    blocks = sorted(block.ulid for block in world.truth.blocks.values() if block.marked is None and _has_rows(block))
    return world.choices.pick(blocks) if blocks else None


def _has_rows(block: TrueBlock) -> bool:
    return block.whole and any(name.startswith("chunks/") for name in block.files)


def _lose_a_chunk(world: World, ulid: str) -> tuple[str, bytes]:
    bucket = LaggingBucket(world.true_bucket, world.lag, ACCIDENT)
    key = next(item.key for item in world.true_bucket.list(keys.block(STREAM, ulid, "chunks/")))
    raw = world.true_bucket.get(key)
    bucket.delete([key])
    world.around.tally["accidents"] += bool(world.truth.lost)
    return key, raw


def _put_back(world: World, key: str, raw: bytes) -> None:
    """Put a file back, unless the block has been given up meanwhile."""
    ulid, _ = keys.parse_block(key, STREAM) or ("", "")
    if ulid in world.truth.blocks and META_FILE in world.truth.blocks[ulid].files:
        LaggingBucket(world.true_bucket, world.lag, ACCIDENT).create(key, raw)


def _back_up(world: World, blocks: Iterable[str]) -> None:
    """Copy blocks, and the schemas that there are, into the backup."""
    prefixes = [keys.block(STREAM, ulid) for ulid in blocks]
    prefixes.append(keys.schema(STREAM, "x").partition("x.")[0])
    for item in (item for prefix in prefixes for item in world.true_bucket.list(prefix)):
        there = f"{keys.blocks(ATTIC)}{item.key.removeprefix(keys.blocks(STREAM))}"
        world.true_bucket.put(there, world.true_bucket.get(item.key))
