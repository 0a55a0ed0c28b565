"""Planning compactions: overlaps first, then minor or major. Source: the design, "Compaction: planning"."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from drystone.block.chunks import GRANULARITIES, Chunk, chunk_at, covering_chunk
from drystone.block.states import Times
from drystone.config.model import Compaction, Granularities
from drystone.plan.batches import cut_batches
from drystone.plan.candidates import find_candidates
from drystone.plan.model import Merge, Plan, Skip, merge_key
from drystone.plan.overlaps import find_overlaps
from drystone.plan.tiers import runs
from drystone.plan.unaware import find_unaware
from drystone.timeline.groups import Group
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """What a stream wants of its compactions."""

    rules: Compaction
    granularity: Granularities
    times: Times
    generation: int = 0


def plan_minor(
    snapshot: Snapshot, timeline: Timeline, policy: CompactionPolicy, plan_id: str, batches: int = 1
) -> Plan:
    """Plan the merge of small blocks inside each ingest chunk, towards the target size; appends may go on meanwhile."""
    return _plan("minor", snapshot, timeline, policy, plan_id, batches)


def plan_major(
    snapshot: Snapshot, timeline: Timeline, policy: CompactionPolicy, plan_id: str, batches: int = 1
) -> Plan:
    """Plan the merge of whole chunks of the major granularity that ended `offset_from_latest` ago."""
    return _plan("major", snapshot, timeline, policy, plan_id, batches)


def _plan(
    kind: str, snapshot: Snapshot, timeline: Timeline, policy: CompactionPolicy, plan_id: str, batches: int
) -> Plan:
    candidates = find_candidates(snapshot, timeline, policy.times, policy.generation)
    shared = (several for holders in timeline.holders.values() for _, several in holders.shared())
    overlapping = find_overlaps(candidates.groups, shared)
    busy = {group.id for component in overlapping for group in component}
    free = [group for group in candidates.groups if group.id not in busy]
    skipped = list(candidates.skipped)
    merges = [*_overlap_merges(overlapping, policy, skipped)]
    if unaware := find_unaware(free, timeline):
        merges += [
            rewrite_of(group, policy.rules, "only a block that is out tells what of it is replaced")
            for group in unaware
        ]
        free = [group for group in free if group not in unaware]
    merges += _minor_merges(free, policy) if kind == "minor" else _major_merges(free, timeline.at, policy, skipped)
    chosen = _within_budget(merges, policy.rules, skipped)
    return Plan.model_validate(
        {
            "id": plan_id,
            "stream": snapshot.stream,
            "kind": kind,
            "created": timeline.at,
            "expires": timeline.at + policy.times.plan_ttl,
            "merges": tuple(chosen),
            "skipped": tuple(skipped),
            "batches": cut_batches([merge.bytes for merge in chosen], batches),
        }
    )


def _overlap_merges(
    components: Iterable[list[Group]], policy: CompactionPolicy, skipped: list[Skip]
) -> Iterator[Merge]:
    for component in components:
        names = ", ".join(group.id for group in component)
        chunk = _chunk_of(component)
        if chunk is None:
            skipped.append(Skip(name=names, reason="they share sources, but no single time chunk holds them"))
        elif too_big := _too_big(component, policy.rules):
            skipped.append(Skip(name=names, reason=f"they share sources, but {too_big}"))
        else:
            yield merge_of("overlap", component, chunk, policy.rules, "they share sources")


def _minor_merges(groups: Iterable[Group], policy: CompactionPolicy) -> Iterator[Merge]:
    rules = policy.rules
    by_chunk: dict[Chunk, list[Group]] = {}
    for group in groups:
        chunk = group.chunk
        small = 2 * group.size < rules.target_block_bytes * len(group.members)
        if chunk is not None and chunk.granularity == policy.granularity.ingest and small:
            by_chunk.setdefault(chunk, []).append(group)
    for chunk, found in by_chunk.items():
        for run in runs(
            found,
            lambda group: group.size,
            ratio=rules.size_ratio,
            min_items=rules.min_inputs,
            max_size=_most_bytes(rules),
        ):
            yield merge_of("minor", run, chunk, rules, f"{len(run)} small groups in one {chunk.granularity}")


def _major_merges(groups: Iterable[Group], now: int, policy: CompactionPolicy, skipped: list[Skip]) -> Iterator[Merge]:
    by_chunk: dict[Chunk, list[Group]] = {}
    for group in groups:
        own = group.chunk
        if own is None:
            skipped.append(Skip(name=group.id, reason="no single time chunk holds it"))
        elif GRANULARITIES.index(own.granularity) <= GRANULARITIES.index(policy.granularity.major):
            by_chunk.setdefault(chunk_at(own.start, policy.granularity.major), []).append(group)
    for chunk, found in by_chunk.items():
        if chunk.end + policy.rules.offset_from_latest > now:
            skipped.append(Skip(name=chunk.label, reason="the chunk has not been over for offset_from_latest"))
            continue
        chosen = _worth_rewriting(found, policy)
        too_big = _too_big(chosen, policy.rules)
        if too_big:
            skipped.append(Skip(name=chunk.label, reason=f"{len(chosen)} groups {too_big}, and are merged in parts"))
        for part in _split(chosen, _most_bytes(policy.rules)) if too_big else [chosen] if chosen else []:
            yield merge_of("major", part, chunk, policy.rules, f"{len(part)} groups into one {chunk.granularity}")


def _worth_rewriting(groups: list[Group], policy: CompactionPolicy) -> list[Group]:
    """Return every finer group, and of the chunk's own those whose rewrite pays by the rule of size tiers.

    A group alone is left: it would come out as it is.
    """
    major = policy.granularity.major
    finer = [group for group in groups if group.pattern.granularity != major]
    done = sorted((group for group in groups if group.pattern.granularity == major), key=lambda group: group.size)
    if not finer:
        tiered = runs(
            done,
            lambda group: group.size,
            ratio=policy.rules.size_ratio,
            min_items=policy.rules.min_inputs,
            max_size=_most_bytes(policy.rules),
        )
        return next(tiered, [])
    chosen, total = finer, sum(group.size for group in finer)
    for group in done:
        if group.size > policy.rules.size_ratio * total:
            break
        chosen = [*chosen, group]
        total += group.size
    return chosen if len(chosen) > 1 else []


def _split(groups: Iterable[Group], most: int) -> Iterator[list[Group]]:
    """Yield runs of groups that follow each other in time, of at least two and at most `most` bytes."""
    part: list[Group] = []
    total = 0
    for group in sorted(groups, key=lambda group: (group.min_time, group.first)):
        if total + group.size > most:
            if len(part) > 1:
                yield part
            part, total = [], 0
        if group.size <= most:
            part.append(group)
            total += group.size
    if len(part) > 1:
        yield part


def merge_of(kind: str, groups: list[Group], chunk: Chunk, rules: Compaction, reason: str) -> Merge:
    """Return the merge of these groups into blocks of about target size in one chunk."""
    size = sum(group.size for group in groups)
    outputs = max(1, round(size / rules.target_block_bytes))
    blocks = tuple(sorted(block.ulid for group in groups for block in group.members))
    return Merge.model_validate(
        {
            "key": merge_key(kind, chunk.granularity, outputs, blocks),
            "kind": kind,
            "chunk_start": chunk.start,
            "chunk_end": chunk.end,
            "granularity": chunk.granularity,
            "label": chunk.label,
            "groups": tuple(sorted(group.id for group in groups)),
            "blocks": blocks,
            "outputs": outputs,
            "bytes": size,
            "rows": sum(group.rows for group in groups),
            "reason": reason,
        }
    )


def rewrite_of(group: Group, rules: Compaction, reason: str) -> Merge:
    """Return the rewrite of one group alone, in its own chunk, or, where it spans several, in its own range."""
    own = Chunk(group.min_time, max(group.max_time, group.min_time + 1), group.pattern.granularity)
    return merge_of("rewrite", [group], group.chunk or own, rules, reason)


def _chunk_of(groups: list[Group]) -> Chunk | None:
    coarsest = max((group.pattern.granularity for group in groups), key=GRANULARITIES.index)
    return covering_chunk(min(g.min_time for g in groups), max(g.max_time for g in groups), coarsest)


def _most_bytes(rules: Compaction) -> int:
    """Return how many bytes a merge may have: more than a whole run may rewrite would wait for ever."""
    return min(rules.max_group_bytes, rules.max_bytes_per_run)


def _too_big(groups: list[Group], rules: Compaction) -> str:
    """Return which limit the groups exceed together, or an empty text."""
    if sum(group.size for group in groups) <= _most_bytes(rules):
        return ""
    return f"exceed {'max_group_bytes' if rules.max_group_bytes <= rules.max_bytes_per_run else 'max_bytes_per_run'}"


def _within_budget(merges: list[Merge], rules: Compaction, skipped: list[Skip]) -> list[Merge]:
    """Order by benefit, overlaps first: blocks saved per byte rewritten, then by age; and stop at the run's budget."""
    sign = -1 if rules.order == "newest" else 1

    def rank(merge: Merge) -> tuple[bool, float, int]:
        saved_per_byte = (len(merge.blocks) - merge.outputs) / max(merge.bytes, 1)
        return (merge.kind != "overlap", -saved_per_byte, sign * merge.chunk_start)

    merges.sort(key=rank)
    chosen: list[Merge] = []
    left = rules.max_bytes_per_run
    for merge in merges:
        if merge.bytes > left:
            skipped.append(Skip(name=merge.label, reason="max_bytes_per_run is used up; the next run goes on"))
            continue
        left -= merge.bytes
        chosen.append(merge)
    return chosen
