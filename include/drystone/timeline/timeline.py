"""The timeline: a snapshot resolved to what is visible, what is superseded and by what, and what is wrong.

Source: the design, "Visibility". Readers, planners, the remover and everything that shows a stream use `resolve`, so
that they cannot disagree. Marks have no part in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from drystone.block.edits import Edit
from drystone.block.marks import EXPIRED
from drystone.block.meta import Replacement
from drystone.block.states import State, Times, state
from drystone.timeline.blocks import Block, block_of
from drystone.timeline.collector import collector_paused
from drystone.timeline.cover import Covering, Realm, cover
from drystone.timeline.damage import Damage, Problem, away_of, find_damage, find_problems
from drystone.timeline.gone import Gone, find_gone
from drystone.timeline.groups import Group, group_blocks
from drystone.timeline.holders import Holders
from drystone.timeline.pending import Expiry, expiry_of
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.visible import Visible, VisibleGroups

__all__ = ["Timeline", "Visible", "VisibleGroups", "resolve", "resolve_blocks", "states"]


@dataclass(frozen=True, slots=True)
class Timeline:
    """What a stream shows at the moment `at` (ms). Groups are keyed by their id, twins by ULID.

    `covered` names for each covered group a visible one that covers it; `out` says why a group without a row to read is
    out; `pending` are complete groups that are not ready yet; `incomplete` lack members; `twins` are spare blocks of a
    ready group that are not in upload any more. `holders` tells for each realm which visible groups hold a source,
    `gone` which sources are read nowhere. `damage` lists rows that should be there and cannot be read; `problems`
    everything that is reported.
    """

    at: int
    groups: dict[str, Group]
    visible: VisibleGroups
    covered: dict[str, str]
    out: dict[str, str]
    pending: dict[str, Group]
    incomplete: dict[str, Group]
    twins: dict[str, str]
    holders: dict[Realm, Holders]
    gone: Gone
    damage: tuple[Damage, ...]
    problems: tuple[Problem, ...]

    @property
    def replacements(self) -> frozenset[Replacement]:
        """What ready groups say replaces what."""
        return self.gone.replacements


def resolve(snapshot: Snapshot, times: Times, now: int | None = None) -> Timeline:
    """Return the timeline of a snapshot at `now` (by default the time at which it was taken)."""
    at = snapshot.taken_at if now is None else now
    blocks = [block for folder in snapshot.folders.values() if (block := block_of(folder)) is not None]
    problems, unknown = find_problems(snapshot, at, times)
    return resolve_blocks(blocks, snapshot.edits, times, at, problems=problems, unknown=unknown)


@collector_paused()
def resolve_blocks(
    blocks: Iterable[Block],
    edits: Iterable[Edit],
    times: Times,
    at: int,
    *,
    problems: Iterable[Problem] = (),
    unknown: Iterable[Damage] = (),
) -> Timeline:
    """Return the timeline of blocks and edits, whatever their order; near linear in the number of blocks.

    `problems` and `unknown` damage were found in what is not a block, and are handed on.
    """
    edits = tuple(edits)
    groups, disagreeing = group_blocks(blocks, at, times.sync_delay)
    ready: list[Group] = []
    pending: dict[str, Group] = {}
    incomplete: dict[str, Group] = {}
    for group in groups.values():
        if group.ready(at, times.sync_delay):
            ready.append(group)
        elif group.complete:
            pending[group.id] = group
        else:
            incomplete[group.id] = group

    gone = find_gone(ready, edits)
    expiry = expiry_of(edits)
    expired = {group.id: EXPIRED for group in ready if expiry.takes_all_of(group)} if expiry else {}
    covering = cover((group for group in ready if group.id not in expired), gone.sources)
    out = expired | {group.id: _why_out(group, gone) for group in covering.out}
    fresh = at - times.sync_delay
    lost, over = _split(incomplete.values(), expiry) if expiry else (list(incomplete.values()), [])
    away = away_of(gone, [*(groups[name] for name in expired), *over] if lost else ())
    damage = find_damage(lost, disagreeing, covering, away, at, times)
    return Timeline(
        at=at,
        groups=groups,
        visible=VisibleGroups(covering.visible, covering.elsewhere, gone, edits, times.clock_skew),
        covered=covering.covered,
        out=out,
        pending=pending,
        incomplete=incomplete,
        twins={other.ulid: group.id for group in ready for other in group.others if other.touched <= fresh},
        holders=covering.holders,
        gone=gone,
        damage=(*unknown, *damage),
        problems=(*problems, *_group_problems(disagreeing, covering)),
    )


def _split(incomplete: Iterable[Group], expiry: Expiry) -> tuple[list[Group], list[Group]]:
    """Return the groups that may be missed, and those of which every row is expired."""
    lost: list[Group] = []
    over: list[Group] = []
    for group in incomplete:
        (over if expiry.takes_all_of(group) else lost).append(group)
    return lost, over


def _why_out(group: Group, gone: Gone) -> str:
    return "retired" if group.sources <= gone.retired else "replaced"


def _group_problems(disagreeing: dict[str, str], covering: Covering) -> list[Problem]:
    found = [
        Problem("disagreeing-group", name, f"group {name}: its blocks disagree about {field}; none of them is read.")
        for name, field in disagreeing.items()
    ]
    for wide, narrow in covering.too_narrow:
        text = (
            f"group {wide.id} has all sources of group {narrow.id} that are still read, but not its time range; "
            "both are kept, and every source is read from one of them."
        )
        found.append(Problem("narrow-replacement", wide.first, text))
    return found


def states(snapshot: Snapshot, timeline: Timeline, times: Times) -> dict[str, State]:
    """Return the state of every block folder of a snapshot, by ULID."""
    superseded = timeline.covered.keys() | timeline.out.keys()
    overlapped = {block.ulid for name in superseded for block in timeline.groups[name].blocks} | timeline.twins.keys()
    return {
        ulid: state(folder, timeline.at, times, overlapped=ulid in overlapped)
        for ulid, folder in snapshot.folders.items()
    }
