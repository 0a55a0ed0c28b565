"""Planning repairs that a person asks for: what to delete, to rewrite, to replace. Pure.

Source: the design, "Blocks: the rules" (4) and "Lifecycle verbs", "Visibility: replacing data".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from drystone import ulids
from drystone.block.folder import Folder
from drystone.block.meta import Replacement
from drystone.block.predicates import Predicate
from drystone.block.states import State, Times
from drystone.plan.batches import cut_batches
from drystone.plan.compaction import CompactionPolicy, merge_of
from drystone.plan.model import Delete, Merge, Plan, Replace, Reupload, Skip, Swap
from drystone.plan.removal import held_by, is_idle, sources_in_doubt
from drystone.plan.support import Support
from drystone.timeline.gone import origins_of
from drystone.timeline.groups import Group
from drystone.timeline.pending import expiry_of
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, states

SWAPS_AT_ONCE = 16
"""How many sources one action replaces: each has a block of its own that is written at the same time."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a repair is planned from. `now`: ms since the epoch, as all plans are."""

    snapshot: Snapshot
    timeline: Timeline
    times: Times

    @property
    def now(self) -> int:
        """The moment of the timeline."""
        return self.timeline.at


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asks for: `blocks` by name (none: all that the rule finds by itself), and why."""

    plan_id: str
    blocks: tuple[str, ...] = ()
    reason: str = ""

    @property
    def by_name(self) -> bool:
        """Whether a person answers for exactly these blocks."""
        return bool(self.blocks and self.reason)


def plan_partial(sight: Sight, wish: Wish, once_whole: frozenset[str]) -> Plan:
    """Plan which Partial folders to delete: those whose upload is over, as the next sweep would.

    One that was whole once is damage: it goes only where a person names it, and says why.
    """

    def judge(folder: Folder) -> Delete | Skip:
        if not is_idle(folder, sight.now, sight.times):
            return _left(folder, "its upload may still run: it is not older than sync_delay + delete_delay")
        if folder.ulid not in once_whole:
            return _delete(folder, "partial", "an upload that never finished")
        if not wish.by_name:
            return _left(
                folder,
                "it was whole once: restore its meta.json, or name it and give a reason to give it up",
                person=True,
            )
        return _delete(folder, "partial", f"given up: {wish.reason}")

    return _deletions(sight, wish, State.PARTIAL, judge)


def plan_malformed(sight: Sight, wish: Wish, contents: Mapping[str, frozenset[str] | None], generation: int) -> Plan:
    """Plan which Malformed blocks to delete: those whose sources are all visible elsewhere, or gone by an edit.

    `contents`: of each Malformed block the sources that it has rows of, None where nobody can tell; such a block goes
    only where a person names it, and says why. `generation`: the stream's, for blocks that cannot say their own.
    """
    support = Support(sight.snapshot, sight.timeline)
    expiry = expiry_of(sight.snapshot.edits)
    in_doubt = sources_in_doubt(sight.timeline, expiry)

    def judge(folder: Folder) -> Delete | Skip:
        if not is_idle(folder, sight.now, sight.times):
            return _left(folder, "it changed a moment ago: it is not older than sync_delay + delete_delay")
        sources = contents.get(folder.ulid)
        if sources is None:
            if wish.by_name:
                return _delete(folder, "malformed", f"given up, with rows of unknown sources: {wish.reason}")
            why = "nobody can tell which sources it has rows of: name it and give a reason to give it up"
            return _left(folder, why, person=True)
        realm = _realm(folder, generation)
        if folder.meta is not None and folder.meta.max_time <= expiry.before(realm[1]):
            if not in_doubt.isdisjoint(sources):
                return _left(folder, "only it tells that what another group lacks is expired: that one must go first")
            return _delete(folder, "malformed", "its rows are expired")
        told = _retires(folder)
        lost = [source for source in sorted(sources) if support.held(realm, [source], told) is None]
        if lost:
            more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
            why = f"its source {lost[0]}{more} is read from nowhere else: restore it, or retire what is lost first"
            return _left(folder, why, person=True)
        needs = support.held(realm, sources, told) or ()
        return _delete(folder, "malformed", "its sources are read elsewhere, or gone by an edit", needs)

    return _deletions(sight, wish, State.MALFORMED, judge)


def plan_rewrite(sight: Sight, wish: Wish, policy: CompactionPolicy, batches: int) -> Plan:
    """Plan the rewrite of the groups of the named blocks: each gives a new group of the same rows, which wins over it.

    Pending edits are applied, rows of sources that are gone are left out, as in every rewrite.
    """
    found, skipped = _groups_of(sight, wish.blocks)
    merges: list[Merge] = []
    for group in found:
        chunk = group.chunk
        held = _held(sight, group)
        if chunk is None or held:
            skipped.append(Skip(name=group.id, reason=held or "no single time chunk holds it"))
        else:
            merges.append(merge_of("rewrite", [group], chunk, policy.rules, wish.reason or "asked for"))
    cut = cut_batches([each.bytes for each in merges], batches)
    return plan_of(sight, wish, skipped, merges=tuple(merges), batches=cut)


def plan_drop(sight: Sight, wish: Wish, where: Predicate, found: Mapping[str, Mapping[str, int]], batches: int) -> Plan:
    """Plan the replacement of every source that has rows which `where` selects.

    `found`: by visible group and source that is read from it, how many such rows there are. A replacement counts from
    the moment at which it is ready, and only for the rows that are there now: unlike an erase, later uploads of other
    sources may bring such rows again.
    """
    actions: list[Replace] = []
    skipped: list[Skip] = []
    for name, sources in sorted(found.items()):
        group = sight.timeline.groups[name]
        if held := _held(sight, group):
            skipped.append(Skip(name=name, reason=held))
            continue
        swaps = [_swap(root, rows, wish.plan_id, sight.now) for root, rows in sorted(sources.items())]
        late = [swap.root for swap in swaps if swap.by <= swap.root]
        skipped += [Skip(name=root, reason="a source from the future cannot be replaced yet") for root in late]
        swaps = [swap for swap in swaps if swap.root not in late]
        shares = (swaps[start : start + SWAPS_AT_ONCE] for start in range(0, len(swaps), SWAPS_AT_ONCE))
        actions += [_replace(group, share, where, wish) for share in shares]
    cut = cut_batches([each.bytes for each in actions], batches)
    return plan_of(sight, wish, skipped, replaces=tuple(actions), batches=cut)


def plan_reupload(
    sight: Sight, wish: Wish, root: str, file: tuple[str, str, int], uploaded: frozenset[str] = frozenset()
) -> Plan:
    """Plan the upload of a file (its path, SHA-256 and bytes) as the replacement of one source.

    The new rows are read as soon as they are uploaded (`ignore_delay`), and the source's old ones no more. Of a source
    that no block tells of any more nobody knows what else was read in its place: it is refused, unless it is in
    `uploaded`, the sources of first generation that the log knows.
    """
    path, sha256, size = file
    swap = _swap(root, 0, wish.plan_id, sight.now)
    told = frozenset(pair for group in sight.timeline.groups.values() for pair in group.retires)
    refusal = ""
    if not _is_known(root, sight, told) and root not in uploaded:
        refusal = "no block tells of this source any more: name the one that its rows are read from"
    elif root in sight.timeline.gone.retired:
        refusal = "the source was retired, and stays so: ingest the file under a new name"
    elif swap.by <= root:
        refusal = "a source from the future cannot be replaced yet"
    if refusal:
        return plan_of(sight, wish, [Skip(name=root, reason=refusal)])
    above = origins_of(told).get(root, frozenset()) | {root}
    pairs = {Replacement(root=root, by=swap.by), *sight.timeline.gone.evidence([root])}
    pairs |= {pair for pair in told if pair.by in above}
    action = Reupload(
        key=f"{wish.plan_id}-{root}",
        root=root,
        by=swap.by,
        retires=tuple(sorted(pairs, key=lambda pair: (pair.root, pair.by))),
        path=path,
        sha256=sha256,
        bytes=size,
        reason=wish.reason,
    )
    return plan_of(sight, wish, [], reuploads=(action,), batches=((0,),))


def _is_known(source: str, sight: Sight, told: frozenset[Replacement]) -> bool:
    named = (source in (pair.root, pair.by) for pair in told)
    return any(named) or any(source in folder.sources for folder in sight.snapshot.folders.values())


def _swap(root: str, rows: int, plan_id: str, now: int) -> Swap:
    return Swap(root=root, by=ulids.derive(now, "replace", root, plan_id), rows=rows)


def _replace(group: Group, swaps: Sequence[Swap], where: Predicate, wish: Wish) -> Replace:
    chunk = group.chunk
    rows = sum(swap.rows for swap in swaps)
    return Replace(
        key=f"{wish.plan_id}-{swaps[0].root}",
        label=chunk.label if chunk is not None else group.id,
        group=group.id,
        blocks=tuple(block.ulid for block in group.members),
        swaps=tuple(swaps),
        where=where,
        bytes=group.size,
        rows=group.rows,
        reason=f"{rows:,} rows of {len(swaps)} sources match: {wish.reason or 'asked for'}",
    )


def _delete(folder: Folder, kind: str, reason: str, needs: tuple[str, ...] = ()) -> Delete:
    fields = {"ulid": folder.ulid, "kind": kind, "bytes": folder.size, "reason": reason, "needs": needs}
    return Delete.model_validate({**fields, "seen": folder.fingerprint})


def _left(folder: Folder, reason: str, *, person: bool = False) -> Skip:
    return Skip(name=folder.ulid, reason=reason, for_person=person)


def _deletions(sight: Sight, wish: Wish, wanted: State, judge: Callable[[Folder], Delete | Skip]) -> Plan:
    """Judge every named folder, or else each one in the wanted state."""
    found = states(sight.snapshot, sight.timeline, sight.times)
    deletes: list[Delete] = []
    skipped: list[Skip] = []
    pinned = any(pin.expires > sight.now for pin in sight.snapshot.pins)
    for ulid in wish.blocks or [ulid for ulid, state in found.items() if state == wanted]:
        folder = sight.snapshot.folders.get(ulid)
        if folder is None or found[ulid] != wanted:
            what = f"it is {found[ulid]}, not {wanted}" if folder is not None else "there is no such block (any more)"
            skipped.append(Skip(name=ulid, reason=what))
            continue
        kept = held_by(sight.snapshot, ulid, sight.now) or ("a long read has pinned the stream" if pinned else "")
        judged = _left(folder, kept) if kept else judge(folder)
        if isinstance(judged, Skip):
            skipped.append(judged)
        else:
            deletes.append(judged)
    return plan_of(
        sight, wish, skipped, deletes=tuple(deletes), batches=cut_batches([each.bytes for each in deletes], 1)
    )


def _retires(folder: Folder) -> tuple[Replacement, ...]:
    extension = folder.meta.drystone if folder.meta is not None else None
    return extension.retires if extension is not None else ()


def _realm(folder: Folder, generation: int) -> tuple[int, int]:
    extension = folder.meta.drystone if folder.meta is not None else None
    if folder.meta is None or extension is None:
        return (generation, 0)
    return (extension.generation, folder.meta.thanos.downsample.resolution)


def _groups_of(sight: Sight, blocks: Iterable[str]) -> tuple[list[Group], list[Skip]]:
    """Return the visible groups of these blocks, each once, and why the others are left alone."""
    by_block = {block.ulid: group for group in sight.timeline.groups.values() for block in group.members}
    found: dict[str, Group] = {}
    skipped: list[Skip] = []
    for ulid in blocks:
        group = by_block.get(ulid)
        if group is not None and group.id in sight.timeline.visible:
            found[group.id] = group
        elif ulid in sight.snapshot.folders:
            skipped.append(Skip(name=ulid, reason="it is not read, so there is nothing to rewrite"))
        else:
            skipped.append(Skip(name=ulid, reason="there is no such block (any more)"))
    return list(found.values()), skipped


def _held(sight: Sight, group: Group) -> str:
    return next((held for block in group.members if (held := held_by(sight.snapshot, block.ulid, sight.now))), "")


def plan_of(sight: Sight, wish: Wish, skipped: Sequence[Skip], **actions: tuple[object, ...]) -> Plan:
    """Return the plan of a repair with these fields."""
    return Plan.model_validate(
        {
            "id": wish.plan_id,
            "stream": sight.snapshot.stream,
            "kind": "repair",
            "created": sight.now,
            "expires": sight.now + sight.times.plan_ttl,
            "skipped": tuple(skipped),
            **actions,
        }
    )
