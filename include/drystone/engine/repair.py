"""Repairs: a person's request becomes a plan, and a batch of a plan is carried out. Who runs it does not matter.

Source: the design, "Blocks: lifecycle verbs" (repair), "Visibility: replacing data".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from drystone import ulids
from drystone.block.predicates import Predicate
from drystone.block.states import State
from drystone.engine import audit, merging
from drystone.engine.acting import act
from drystone.engine.adopt import Adopted, AdoptTask, adopt_block, adopt_task, look_at
from drystone.engine.job import Job
from drystone.engine.matching import find_matches
from drystone.engine.plans import batch_of
from drystone.engine.recipe import Input, Recipe, recipe_for
from drystone.engine.record import keep_schema, read_schema
from drystone.engine.replace import ReplaceTask, build_replacements
from drystone.engine.reupload import file_facts
from drystone.engine.unreadable import contents_of
from drystone.errors import DrystoneError, UsageError
from drystone.jobs import RepairRequest
from drystone.plan import repair as planning
from drystone.plan.adopt import plan_adopt
from drystone.plan.model import Adopt, Delete, Merge, Plan, Replace, Reupload
from drystone.plan.repair import Sight, Wish
from drystone.rows.arrow_schema import to_arrow, unify
from drystone.rows.expressions import typed
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve, states

Uploader = Callable[[Reupload], list[str]]
"""Uploads the file of an action as its replacement, and returns the new blocks' ULIDs."""


@dataclass
class Repaired:
    """What was done: new blocks (or those that are gone), lines for a person, and what failed while others went on."""

    blocks: list[str] = field(default_factory=list)
    summary: dict[str, int | str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    transient: bool = False


def plan_repair(job: Job, request: RepairRequest, base: Path) -> Plan:
    """Return the plan of a request; nothing is changed. A relative path is one below `base`.

    malformed reads the sources of the blocks that cannot say them, drop-rows the columns that its predicate names.
    Raises UsageError for a column or a file that there is none of, and what observing and reading raise.
    """
    snapshot = job.tracker.observe(job.clock())
    sight = Sight(snapshot, resolve(snapshot, job.times), job.times)
    wish = Wish(ulids.new(sight.now), tuple(dict.fromkeys(request.blocks)), request.reason.strip())
    match request.kind:
        case "partial":
            return planning.plan_partial(sight, wish, audit.uploaded(job.bucket, job.stream))
        case "malformed":
            return planning.plan_malformed(sight, wish, _contents(job, sight, wish), job.config.generation)
        case "rewrite":
            return planning.plan_rewrite(sight, wish, job.policy, request.batches)
        case "drop-rows" if request.where is not None:
            where = _typed(job, snapshot, sight.timeline, request.where)
            found = find_matches(job, snapshot, sight.timeline, where, frozenset(wish.blocks))
            return planning.plan_drop(sight, wish, where, found, request.batches)
        case "reupload" if request.source is not None and request.path is not None:
            log = audit.first_generation(job.bucket, job.stream)
            return planning.plan_reupload(sight, wish, request.source, file_facts(base / request.path), log)
        case "adopt":
            place = look_at(job, request.origin, request.origin_stream)
            return plan_adopt(sight, wish, place, job.config, request.batches)
        case _:
            raise UsageError("this request asks for no repair.", "Give a kind, and what it needs.")


def carry_out(job: Job, plan: Plan, batch: int, upload: Uploader) -> Repaired:
    """Carry out one batch of a plan, from what is in the bucket now; what was done before is passed over.

    One action that fails leaves the others alone. Raises PlanExpiredError, and HeldError while another remover runs.
    """
    plan.check(job.clock())
    actions = batch_of(plan, batch)
    done = Repaired()
    if deletes := [action for action in actions if isinstance(action, Delete)]:
        _delete(job, plan, deletes, done)
    snapshot = job.tracker.observe(job.clock())
    timeline = resolve(snapshot, job.times)
    if merges := [action for action in actions if isinstance(action, Merge)]:
        _rewrite(job, snapshot, timeline, merges, done)
    if replaces := [action for action in actions if isinstance(action, Replace)]:
        _replace(job, snapshot, timeline, replaces, done)
    if adopts := [action for action in actions if isinstance(action, Adopt)]:
        _adopt(job, snapshot, adopts, done)
    for action in actions:
        if isinstance(action, Reupload):
            _reupload(timeline, job, action, upload, done)
    return done


def _delete(job: Job, plan: Plan, deletes: Sequence[Delete], done: Repaired) -> None:
    acted = act(job, plan, deletes, "delete")
    gone = {each.ulid for each in acted if each.done}
    done.blocks += sorted(gone)
    done.summary |= {"deleted": len(gone), "bytes": sum(each.bytes for each in deletes if each.ulid in gone)}
    done.lines += [f"* deleted {each.ulid}: {each.reason}" for each in deletes if each.ulid in gone]
    done.lines += [f"* left alone after the second look: {each.ulid}: {each.refusal}" for each in acted if each.refusal]
    done.failures += [f"block {each.ulid}: {each.error}" for each in acted if each.error]
    done.transient = True


def _rewrite(job: Job, snapshot: Snapshot, timeline: Timeline, merges: Sequence[Merge], done: Repaired) -> None:
    finished = _operations(snapshot)
    recipes: dict[str, Recipe] = {}
    for merge in merges:
        recipe = recipe_for(merge, snapshot, timeline)
        if isinstance(recipe, Recipe):
            recipes[merge.key] = recipe
        elif merge.key in finished:
            done.lines.append(f"* {merge.label}: done before")
        else:
            done.failures.append(f"rewrite of {', '.join(merge.groups)}: {recipe}; plan again")
    merged = merging.execute(job, recipes)
    done.blocks += merged.blocks
    done.summary |= merging.summarize(recipes, merged)
    done.lines += merging.lines(recipes, merged)
    done.failures += [f"rewrite {recipes[key].merge.label} failed: {why}" for key, why in merged.failures.items()]
    done.transient |= merged.transient


def _replace(job: Job, snapshot: Snapshot, timeline: Timeline, actions: Sequence[Replace], done: Repaired) -> None:
    known = _uploaded(timeline)
    tasks: list[ReplaceTask] = []
    for action in actions:
        left = tuple(swap for swap in action.swaps if swap.by not in known)
        if not left:
            done.lines.append(f"* {action.label}: done before")
        elif retired := [swap.root for swap in left if swap.root in timeline.gone.retired]:
            done.failures.append(f"source {retired[0]} was retired since the plan was made; plan again")
        elif action.group not in timeline.visible:
            done.failures.append(f"group {action.group} is not visible any more; plan again")
        else:
            tasks.append(_task(job, snapshot, timeline, action.model_copy(update={"swaps": left})))
    outputs = job.workers.map(build_replacements, tasks) if tasks else []
    reasons = {task.action.key: task.action.reason for task in tasks}
    new = {ulid: (swap, output.key) for output in outputs for ulid, swap in output.blocks}
    # In this order: what the log knows as uploaded, and as no replacement, is of first generation.
    job.audit("replace", {ulid: f"source {swap.root}: {reasons[key]}" for ulid, (swap, key) in new.items()})
    job.audit("upload", {ulid: f"source {swap.by}" for ulid, (swap, _) in new.items()})
    done.blocks += list(new)
    rows = sum(output.rows_dropped for output in outputs)
    done.summary |= {"replaced": len(new), "rows": sum(output.rows for output in outputs), "rows_dropped": rows}
    done.lines.append(f"{len(new)} sources replaced, without {rows:,} rows; read so once the new blocks are ready.")
    done.failures += [f"replacement {output.key} failed: {output.error}" for output in outputs if output.error]
    done.transient |= any(output.retryable for output in outputs)


def _task(job: Job, snapshot: Snapshot, timeline: Timeline, action: Replace) -> ReplaceTask:
    visible = timeline.visible[action.group]
    metas = [(block.ulid, snapshot.folders[block.ulid].meta) for block in visible.group.members]
    inputs = tuple(Input(ulid, meta, frozenset(), visible.edits) for ulid, meta in metas if meta is not None)
    extensions = (each.meta.drystone for each in inputs)
    prints = dict.fromkeys(each.schema_fingerprint for each in extensions if each is not None)
    schema = unify(read_schema(job.bucket, job.stream, each) for each in prints)
    return ReplaceTask(
        bucket=job.bucket,
        stream=job.stream,
        config=job.config,
        action=action,
        inputs=inputs,
        schema=schema,
        fingerprint=keep_schema(job.bucket, job.stream, schema),
        evidence=timeline.gone.evidence(swap.root for swap in action.swaps),
        edits=frozenset(edit.id for edit in snapshot.edits),
        generation=visible.group.pattern.generation,
        level=visible.group.pattern.level,
        min_time=visible.group.min_time,
        max_time=visible.group.max_time,
        stamp=job.coordination.stamp(),
        clock=job.workers.clock,
    )


def _reupload(timeline: Timeline, job: Job, action: Reupload, upload: Uploader, done: Repaired) -> None:
    if action.by in _uploaded(timeline):
        done.lines.append(f"* source {action.root}: done before")
        return
    if action.root in timeline.gone.retired:
        done.failures.append(f"source {action.root} was retired since the plan was made; plan again")
        return
    if file_facts(Path(action.path))[1] != action.sha256:
        done.failures.append(f"{action.path} changed since the plan was made; plan again")
        return
    try:
        blocks = upload(action)
    except DrystoneError as error:
        done.failures.append(f"{action.path}: {error}")
        done.transient |= error.retryable
        return
    why = f"source {action.root}: by {action.path}: {action.reason or 'asked for'}"
    job.audit("replace", dict.fromkeys(blocks, why))
    job.audit("upload", dict.fromkeys(blocks, f"source {action.by}"))
    done.blocks += blocks
    done.summary |= {"replaced": 1, "blocks": len(blocks)}
    done.lines.append(f"{len(blocks)} blocks of {action.path} replace source {action.root}; read so at once.")


def _adopt(job: Job, snapshot: Snapshot, actions: Sequence[Adopt], done: Repaired) -> None:
    finished = _operations(snapshot)
    known = unify(read_schema(job.bucket, job.stream, each) for each in _fingerprints(snapshot))
    tasks: list[AdoptTask] = []
    for action in actions:
        if action.key in finished:
            done.lines.append(f"* {', '.join(action.blocks)}: done before")
            continue
        schema = known if known.columns else None
        tasks += [adopt_task(job, snapshot, action, ulid, schema) for ulid in action.blocks]
    adopted = job.workers.map(adopt_block, tasks) if tasks else []
    new = {each.ulid: each for each in adopted if each.ulid}
    job.audit("upload", {ulid: _origin_of(each.sources) for ulid, each in new.items()})
    reasons = {action.key: f"from {action.origin}/{action.origin_stream}: {action.reason}" for action in actions}
    job.audit("adopt", {ulid: f"{', '.join(_blocks(actions, each))} {reasons[each.key]}" for ulid, each in new.items()})
    done.blocks += list(new)
    done.summary |= {"adopted": len(new)}
    done.lines.append(f"{len(new)} blocks adopted; read once they are ready.")
    done.failures += [each.error for each in adopted if each.error]
    done.transient |= any(each.retryable for each in adopted)


def _blocks(actions: Sequence[Adopt], adopted: Adopted) -> tuple[str, ...]:
    return next(action.blocks for action in actions if action.key == adopted.key)


def _origin_of(sources: frozenset[str]) -> str:
    return f"source {next(iter(sources))}" if len(sources) == 1 else f"adopted, {len(sources)} sources"


def _operations(snapshot: Snapshot) -> frozenset[str]:
    extensions = (folder.meta.drystone for folder in snapshot.folders.values() if folder.meta is not None)
    return frozenset(each.operation for each in extensions if each is not None)


def _uploaded(timeline: Timeline) -> frozenset[str]:
    """Return the sources of complete groups, ready or not: what half a group holds is still to be uploaded."""
    return frozenset().union(*(group.sources for group in timeline.groups.values() if group.complete))


def _contents(job: Job, sight: Sight, wish: Wish) -> Mapping[str, frozenset[str] | None]:
    found = states(sight.snapshot, sight.timeline, sight.times)
    wanted = [ulid for ulid in wish.blocks or found if found.get(ulid) == State.MALFORMED]
    return {ulid: contents_of(job.bucket, job.stream, sight.snapshot.folders[ulid]) for ulid in wanted}


def _fingerprints(snapshot: Snapshot) -> list[str]:
    extensions = (folder.meta.drystone for folder in snapshot.folders.values() if folder.meta is not None)
    return list(dict.fromkeys(each.schema_fingerprint for each in extensions if each is not None))


def _typed(job: Job, snapshot: Snapshot, timeline: Timeline, where: Predicate) -> Predicate:
    """Return the predicate with values of its columns' types; raise InputError for a column that no block has.

    Such a one would select nothing, and nobody would know.
    """
    members = (block.ulid for group in timeline.visible.groups for block in group.members)
    extensions = (meta.drystone for ulid in members if (meta := snapshot.folders[ulid].meta) is not None)
    prints = dict.fromkeys(each.schema_fingerprint for each in extensions if each is not None)
    schema = unify(read_schema(job.bucket, job.stream, each) for each in prints)
    return typed(where, to_arrow(schema)) if prints else where
