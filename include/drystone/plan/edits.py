"""Planning edits: what retention, a retirement or an erasure would take away, and the edit that does it.

Pure: an edit's id follows from the request, so the plan of a request that was answered before has no action. Source:
the design, "Visibility: edits", "Blocks: lifecycle verbs".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from drystone.block.chunks import Granularity, chunk_at
from drystone.block.edits import Edit, Erase, Expire, Retire, edit_id
from drystone.block.predicates import Predicate
from drystone.block.states import Times
from drystone.config.durations import format_duration
from drystone.errors import UsageError
from drystone.plan.model import Plan, Skip, Taken, WriteEdit
from drystone.timeline.groups import Group
from drystone.timeline.pending import expiry_of, pending_edits
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline

RESOLUTIONS: Mapping[int, str] = {0: "raw rows", 300_000: "rows of 5 min", 3_600_000: "rows of 1 h"}
"""Every resolution (ms), by its name."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asks for an edit, and why. `key`: tells two requests apart that are else the same."""

    reason: str
    author: str
    key: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a planner of edits looks at: the stream at one moment, and what its plan is to be called."""

    snapshot: Snapshot
    timeline: Timeline
    times: Times
    plan_id: str


def plan_retain(seen: Seen, retention: Mapping[int, int], granularity: Granularity, author: str) -> Plan:
    """Plan to expire what is older than the stream keeps it: `retention` in ms, by resolution.

    The limit is the beginning of a time chunk, so that a stream gets one edit for each chunk that ends, and none where
    nothing is that old.
    """
    edits: list[WriteEdit] = []
    skipped: list[Skip] = []
    before = expiry_of(seen.snapshot.edits)
    for resolution, kept in sorted(retention.items()):
        limit = chunk_at(seen.timeline.at - kept, granularity).start
        edit = Expire(
            id=edit_id(seen.snapshot.stream, "expire", str(resolution), str(limit)),
            reason=f"{RESOLUTIONS[resolution]} are kept for {format_duration(kept)}",
            author=author,
            time=seen.timeline.at,
            before=limit,
            resolution=resolution,
        )
        taken = tuple(_taken(seen, edit)) if before.before(resolution) < limit else ()
        if taken:
            edits.append(WriteEdit(edit=edit, taken=taken))
        else:
            skipped.append(
                Skip(name=RESOLUTIONS[resolution], reason=f"nothing that is read is older than {_iso(limit)}")
            )
    return _plan(seen, "retain", edits, skipped)


def plan_retire(seen: Seen, sources: Iterable[str], blocks: Iterable[str], asked: Asked) -> Plan:
    """Plan to retire these sources and those of these blocks, with all that they stand for or that stands for them.

    Raises UsageError for a block or a source that the stream does not have.
    """
    gone = seen.timeline.gone
    named = _named(seen, sources, blocks)
    family = gone.family(named)
    if family <= gone.retired:
        reason = "they are retired already" if len(family) > 1 else "it is retired already"
        return _plan(seen, "retire", [], [Skip(name=", ".join(sorted(named)), reason=reason)])
    edit = Retire(
        id=edit_id(seen.snapshot.stream, "retire", *sorted(family)),
        reason=asked.reason,
        author=asked.author,
        time=seen.timeline.at,
        sources=tuple(sorted(family)),
    )
    return _plan(seen, "retire", [WriteEdit(edit=edit, taken=tuple(_taken(seen, edit)))], [])


def plan_erase(seen: Seen, predicate: Predicate, asked: Asked) -> Plan:
    """Plan to erase every row that matches, in sources that are planned by now, and in what replaces those."""
    stream = seen.snapshot.stream
    edit = Erase(
        id=edit_id(stream, "erase", predicate.model_dump_json(), asked.reason, asked.key),
        reason=asked.reason,
        author=asked.author,
        time=seen.timeline.at,
        predicate=predicate,
    )
    there = next((each for each in seen.snapshot.edits if each.id == edit.id), None)
    if there is not None:
        reason = (
            f"it is in force since {_iso(there.time)}; rows that came later need a request with another reason or key"
        )
        return _plan(seen, "erase", [], [Skip(name=edit.id, reason=reason)])
    return _plan(seen, "erase", [WriteEdit(edit=edit, taken=tuple(_taken(seen, edit)))], [])


def _named(seen: Seen, sources: Iterable[str], blocks: Iterable[str]) -> frozenset[str]:
    named = frozenset(sources)
    gone = seen.timeline.gone
    known = frozenset(gone.sources | gone.origins.keys()).union(*gone.origins.values())
    known = known.union(*(folder.sources for folder in seen.snapshot.folders.values()))
    if unknown := sorted(named - known):
        msg = f"stream {seen.snapshot.stream} has no source {unknown[0]}."
        raise UsageError(msg, "`drystone inspect STREAM ULID` lists a block's sources.")
    for ulid in blocks:
        folder = seen.snapshot.folders.get(ulid)
        if folder is None or not folder.sources:
            msg = f"stream {seen.snapshot.stream} has no block {ulid} whose sources are known."
            raise UsageError(msg, "`drystone ls STREAM` lists the blocks.")
        named |= folder.sources
    if not named:
        raise UsageError("nothing is named that is to be retired.", "Give sources, or blocks.")
    return named


def _taken(seen: Seen, edit: Edit) -> Iterator[Taken]:
    """Yield what the edit takes of each visible group, in the order of time."""
    for group in sorted(seen.timeline.visible.groups, key=lambda each: (each.min_time, each.first)):
        hit = _hit(seen, edit, group)
        if hit is None:
            continue
        read = group.sources - seen.timeline.visible[group.id].excluded
        expired = isinstance(edit, Expire) and group.max_time <= edit.before
        yield Taken(
            group=group.id,
            blocks=tuple(block.ulid for block in group.members),
            sources=() if hit >= group.sources else tuple(sorted(hit)),
            whole=expired or (isinstance(edit, Retire) and hit >= read),
            rows=group.rows,
        )


def _hit(seen: Seen, edit: Edit, group: Group) -> frozenset[str] | None:
    """Return the sources of the group that the edit takes rows of, None for none."""
    if isinstance(edit, Retire):
        return group.sources.intersection(edit.sources) or None
    found = pending_edits(group, (edit,), seen.timeline.gone.origins, seen.times.clock_skew)
    if not found:
        return None
    return group.sources if found[0].sources is None else found[0].sources


def _iso(ms: int) -> str:
    return f"{datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms):%Y-%m-%dT%H:%M:%SZ}"


def _plan(seen: Seen, kind: str, edits: Iterable[WriteEdit], skipped: Iterable[Skip]) -> Plan:
    return Plan.model_validate(
        {
            "id": seen.plan_id,
            "stream": seen.snapshot.stream,
            "kind": kind,
            "created": seen.timeline.at,
            "expires": seen.timeline.at + seen.times.plan_ttl,
            "edits": tuple(edits),
            "skipped": tuple(skipped),
        }
    )
