"""Erasures: which blocks may still hold rows that an erase edit takes, and the rewrites that drop them for good. Pure.

Source: the design, "Blocks: lifecycle verbs", "Visibility: edits". A rewrite takes one visible group alone; what it
replaces goes as everything that is covered does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from drystone.block.edits import Erase, Retire
from drystone.block.folder import Folder
from drystone.block.receipt import Left
from drystone.block.states import Times, is_fresh
from drystone.plan.batches import cut_batches
from drystone.plan.candidates import find_candidates
from drystone.plan.compaction import CompactionPolicy, rewrite_of
from drystone.plan.edits import Seen
from drystone.plan.model import Merge, Plan, Skip
from drystone.timeline.gone import origins_of
from drystone.timeline.groups import Group
from drystone.timeline.pending import PendingEdit, subject_to
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Remains:
    """What the blocks of a stream say of an erasure: see `Receipt`."""

    applied: int
    later: int
    clear: tuple[str, ...]
    left: tuple[Left, ...]
    uploading: tuple[str, ...]


def check_erasure(snapshot: Snapshot, timeline: Timeline, times: Times, edit: Erase, clear: frozenset[str]) -> Remains:
    """Return which blocks may still hold rows that the edit takes. `clear`: those that were looked through, and do not.

    Every folder counts: also what is covered, marked, half deleted, foreign or unreadable holds bytes.
    """
    applied = later = 0
    clean: list[str] = []
    left: list[Left] = []
    uploading: list[str] = []
    states = _standing(timeline)
    for ulid, folder in sorted(snapshot.folders.items()):
        extension = folder.meta.drystone if folder.meta is not None else None
        if extension is None:
            if not folder.has_meta and not folder.has_mark and is_fresh(folder, timeline.at, times):
                uploading.append(ulid)
            else:
                left.append(Left(block=ulid, why=_unknown(folder)))
        elif edit.id in extension.edits:
            applied += 1
        elif not _is_subject(folder, timeline, edit, times):
            later += 1
        elif ulid in clear:
            clean.append(ulid)
        else:
            left.append(Left(block=ulid, why=states.get(ulid, "its group is not whole")))
    return Remains(applied, later, tuple(clean), tuple(left), tuple(uploading))


def _is_subject(folder: Folder, timeline: Timeline, edit: Erase, times: Times) -> bool:
    origins = timeline.gone.origins
    own = folder.meta.drystone.retires if folder.meta is not None and folder.meta.drystone is not None else ()
    # A block that is not ready, or not read any more, says itself what its sources stand for.
    known = {**origins_of(own), **origins} if own else origins
    return bool(subject_to(edit, folder.sources, known, times.clock_skew))


def _standing(timeline: Timeline) -> dict[str, str]:
    """Return, by ULID, what will become of a block that may hold such rows."""
    found: dict[str, str] = {}
    superseded = "superseded: the lifecycle marks and deletes it"
    for name, group in timeline.groups.items():
        if name in timeline.visible:
            why = "it has not been looked through or rewritten yet"
        elif name in timeline.covered or name in timeline.out:
            why = superseded
        elif name in timeline.pending:
            why = "it is not ready yet"
        else:
            why = "its group is not whole"
        found.update((block.ulid, why) for block in group.members)
        found.update((block.ulid, superseded) for block in group.others)
    return found


def _unknown(folder: Folder) -> str:
    if folder.has_meta:
        return "its meta.json cannot be read, or is another tool's"
    return "its deletion has begun" if folder.has_mark else "an upload that never finished: a sweep takes it away"


def unapplied(snapshot: Snapshot, timeline: Timeline) -> Iterator[tuple[str, tuple[PendingEdit, ...]]]:
    """Yield each block that is read, with the erase edits that it has not applied."""
    for visible in timeline.visible.values():
        edits = tuple(pending for pending in visible.edits if isinstance(pending.edit, Erase))
        for block in visible.group.members if edits else ():
            if snapshot.folders[block.ulid].meta is not None:
                yield block.ulid, edits


def plan_rewrite(seen: Seen, policy: CompactionPolicy, batches: int, taken: Mapping[str, int]) -> Plan:
    """Plan to rewrite each group alone that holds rows of retired sources, or rows that an erasure took.

    `taken`: how many of the latter, by block. Whatever its size a group is rewritten: an erasure must come to its end.
    """
    snapshot, timeline = seen.snapshot, seen.timeline
    retired = frozenset(source for edit in snapshot.edits if isinstance(edit, Retire) for source in edit.sources)
    merges: list[Merge] = []
    skipped: list[Skip] = []
    for generation in sorted({group.pattern.generation for group in timeline.visible.groups}):
        candidates = find_candidates(snapshot, timeline, policy.times, generation)
        why = {group.id: reason for group in candidates.groups if (reason := _why(group, timeline, retired, taken))}
        merges += (rewrite_of(group, policy.rules, why[group.id]) for group in candidates.groups if group.id in why)
        skipped += _skipped(candidates.skipped, timeline, retired, taken)
    chosen = _within_budget(merges, policy.rules.max_bytes_per_run, skipped)
    return Plan.model_validate(
        {
            "id": seen.plan_id,
            "stream": snapshot.stream,
            "kind": "rewrite",
            "created": timeline.at,
            "expires": timeline.at + policy.times.plan_ttl,
            "merges": tuple(chosen),
            "skipped": tuple(skipped),
            "batches": cut_batches([merge.bytes for merge in chosen], batches),
        }
    )


def _skipped(
    skipped: Iterable[Skip], timeline: Timeline, retired: frozenset[str], taken: Mapping[str, int]
) -> Iterator[Skip]:
    """Yield what would be rewritten, but may not be now."""
    for skip in skipped:
        why = _why(timeline.groups[skip.name], timeline, retired, taken)
        if why:
            yield Skip(name=skip.name, reason=f"{why}; not now: {skip.reason}")


def _why(group: Group, timeline: Timeline, retired: frozenset[str], taken: Mapping[str, int]) -> str:
    parts = []
    if rows := sum(taken.get(block.ulid, 0) for block in group.members):
        parts.append(f"{rows:,} rows were erased")
    if gone := timeline.visible[group.id].gone & retired:
        parts.append(f"{len(gone)} of its sources were retired")
    return ", ".join(parts)


def _within_budget(merges: Iterable[Merge], most: int, skipped: list[Skip]) -> list[Merge]:
    """Return the smallest first, as many as the run may rewrite, but one at least."""
    chosen: list[Merge] = []
    left = most
    for merge in sorted(merges, key=lambda each: (each.bytes, each.key)):
        if merge.bytes > left and chosen:
            skipped.append(Skip(name=merge.label, reason="max_bytes_per_run is used up; the next run goes on"))
            continue
        left -= merge.bytes
        chosen.append(merge)
    return chosen
