"""Planning the adoption of blocks that a stream does not read: misdated ones, restored ones, other tools'. Pure.

Source: the design, "Blocks: guards" (old ULID arriving late) and "Visibility: foreign blocks".
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from drystone import ulids
from drystone.block.folder import Folder
from drystone.block.meta import Extension, Meta
from drystone.block.states import is_from_future
from drystone.config.model import StreamConfig
from drystone.plan.batches import cut_batches
from drystone.plan.model import Adopt, Plan, Skip
from drystone.plan.repair import Sight, Wish, plan_of
from drystone.timeline.gone import origins_of, standing_for, successors
from drystone.timeline.pending import expiry_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Stranger:
    """A block where it is found: its folder, and its meta.json even if that names another folder.

    `parquet`: whether all its chunks are Parquet files, for a block of another tool.
    """

    folder: Folder
    meta: Meta
    parquet: bool = True

    @property
    def ulid(self) -> str:
        """The name of its folder."""
        return self.folder.ulid

    @property
    def sources(self) -> frozenset[str]:
        """Its whole source set, as its meta.json gives it."""
        return self.folder.sources or frozenset(self.meta.compaction.sources)

    @property
    def resolution(self) -> int:
        """In ms; 0 for raw rows."""
        return self.meta.thanos.downsample.resolution


@dataclass(frozen=True, slots=True)
class Place:
    """Where strangers are looked for: a stream of a bucket, with all that is wrong there, by folder."""

    origin: str
    stream: str
    own: bool
    strangers: Mapping[str, Stranger]
    unusable: Mapping[str, str]


def plan_adopt(sight: Sight, wish: Wish, place: Place, config: StreamConfig, batches: int) -> Plan:
    """Plan which of the wished blocks (none: all that are there) become blocks of the stream, each group whole.

    Drystone's own are copied with their sources, so that every row is still read exactly once. A block of another tool
    becomes a source of its own; where two of them share sources in part, nobody can tell their rows apart, and neither
    is adopted. Left alone is what would bring nothing: rows that are read already, retired, replaced or expired.
    """
    skipped = [Skip(name=ulid, reason=why, for_person=True) for ulid, why in _wished(wish, place.unusable)]
    wanted = [stranger for _, stranger in _wished(wish, place.strangers)]
    if place.own and not wish.blocks:
        # Not every block of the stream, but those that it does not read.
        wanted = [each for each in wanted if each.meta.drystone is None or _is_misplaced(each, sight)]
    known = place.strangers.keys() | place.unusable.keys()
    skipped += [Skip(name=ulid, reason="there is no such block") for ulid in wish.blocks if ulid not in known]
    actions: list[Adopt] = []
    for group in _groups(wanted, place.strangers.values()):
        extension = group[0].meta.drystone
        if extension is None:
            judged = _foreign(sight, wish, place, group[0])
        else:
            judged = _ours(sight, wish, place, group, extension, config)
        if isinstance(judged, Skip):
            skipped.append(judged)
        else:
            actions.append(judged)
    cut = cut_batches([each.bytes for each in actions], batches)
    return plan_of(sight, wish, skipped, adopts=tuple(actions), batches=cut)


def _wished(wish: Wish, found: Mapping[str, T]) -> list[tuple[str, T]]:
    return [(ulid, found[ulid]) for ulid in wish.blocks or sorted(found) if ulid in found]


def _groups(wanted: Iterable[Stranger], everyone: Iterable[Stranger]) -> list[list[Stranger]]:
    """Return the whole groups of these, as far as they are there: a group is adopted as one."""
    members: dict[str, list[Stranger]] = {}
    for each in everyone:
        members.setdefault(_group(each), []).append(each)
    return [members[name] for name in dict.fromkeys(_group(each) for each in wanted)]


def _group(stranger: Stranger) -> str:
    extension = stranger.meta.drystone
    return extension.group.id if extension is not None and extension.group is not None else stranger.ulid


def _ours(
    sight: Sight, wish: Wish, place: Place, group: Sequence[Stranger], extension: Extension, config: StreamConfig
) -> Adopt | Skip:
    name = _group(group[0])
    members = _one_per_index(group)
    size = extension.group.size if extension.group is not None else 1
    if len(members) != size:
        why = f"{len(members)} of the {size} blocks of its group are whole there: restore the others, too"
        return Skip(name=name, reason=why, for_person=True)
    unlike = _unlike(extension, config)
    if unlike:
        return Skip(name=name, reason=f"{unlike}: ingest its rows instead", for_person=True)
    # Of the two, the copy is the older one by its ULID, so it wins when the original's time has come.
    if place.own and not any(_is_misplaced(each, sight) for each in members):
        return Skip(name=name, reason="it is a block of the stream already")
    refusal = _useless(sight, members, (extension.generation, members[0].resolution), future=place.own)
    if refusal:
        return Skip(name=name, reason=refusal)
    return _adopt(wish, place, sight, members)


def _is_misplaced(stranger: Stranger, sight: Sight) -> bool:
    """Whether a block of the stream is not read for its folder's name: of the future, or another than its own."""
    return stranger.ulid != stranger.meta.ulid or is_from_future(stranger.folder, sight.now, sight.times)


def _one_per_index(group: Sequence[Stranger]) -> list[Stranger]:
    found: dict[int, Stranger] = {}
    for each in sorted(group, key=lambda stranger: stranger.ulid):
        extension = each.meta.drystone
        index = extension.group.index if extension is not None and extension.group is not None else 0
        found.setdefault(index, each)
    return [found[index] for index in sorted(found)]


def _unlike(extension: Extension, config: StreamConfig) -> str:
    """Return what keeps the block's files from being a block of this stream as they are."""
    if extension.generation != config.generation:
        return f"it is of generation {extension.generation}, and the stream of {config.generation}"
    if extension.sort_key != config.sort_key:
        return f"it is sorted by {', '.join(extension.sort_key)}, and the stream by {', '.join(config.sort_key)}"
    if extension.time_column != config.time_column:
        return f"its time is {extension.time_column}, and the stream's {config.time_column}"
    return ""


def _useless(sight: Sight, members: Sequence[Stranger], realm: tuple[int, int], *, future: bool) -> str:
    """Return why the rows of a group are not needed, or must not come back; else an empty text."""
    timeline = sight.timeline
    told = timeline.replacements.union(*(each.meta.drystone.retires for each in members if each.meta.drystone))
    lost = successors(told).keys() | standing_for(timeline.gone.retired, origins_of(told))
    live = members[0].sources - timeline.gone.sources - lost
    if not live:
        return "all its sources are retired or replaced, and stay so"
    if max(each.meta.max_time for each in members) <= expiry_of(sight.snapshot.edits).before(realm[1]):
        return "all its rows are expired, and stay so"
    holders = timeline.holders.get(realm)
    if holders is not None and all(source in holders for source in live):
        return "every source of it is read already"
    waiting = (group for group in timeline.pending.values() if not future or group.touched <= timeline.at)
    if any(live <= group.sources for group in waiting):
        return "a group that has all its sources is uploaded, and not ready yet"
    return ""


def _foreign(sight: Sight, wish: Wish, place: Place, stranger: Stranger) -> Adopt | Skip:
    if not stranger.parquet:
        why = "its chunks are no Parquet files: series of Thanos are no rows, and stay in a prefix of their own"
        return Skip(name=stranger.ulid, reason=why, for_person=True)
    others = [each for each in place.strangers.values() if each is not stranger and each.meta.drystone is None]
    for other in sorted(others, key=lambda each: each.ulid):
        shared = stranger.sources & other.sources
        if not shared or other.resolution != stranger.resolution:
            continue
        if stranger.sources < other.sources or (stranger.sources == other.sources and other.ulid < stranger.ulid):
            return Skip(name=stranger.ulid, reason=f"block {other.ulid} has all its sources")
        if not stranger.sources >= other.sources:
            why = f"it shares {len(shared)} sources with block {other.ulid}, and no row says which it is of"
            return Skip(name=stranger.ulid, reason=why, for_person=True)
    born = min(ulids.time_of(stranger.meta.ulid), stranger.folder.last_activity)
    source = ulids.derive(born, sight.snapshot.stream, "adopted", stranger.meta.ulid, *sorted(stranger.sources))
    if source in sight.timeline.gone.sources:
        return Skip(name=stranger.ulid, reason="it was adopted before, and is retired or replaced")
    if any(source in group.sources for group in sight.timeline.groups.values()):
        return Skip(name=stranger.ulid, reason="it was adopted before")
    return _adopt(wish, place, sight, [stranger], source=source)


def _adopt(wish: Wish, place: Place, sight: Sight, members: Sequence[Stranger], *, source: str = "") -> Adopt:
    blocks = tuple(each.ulid for each in members)
    text = "|".join(("adopt", place.origin, place.stream, *blocks))
    key = hashlib.sha256(text.encode()).hexdigest()[:32]
    return Adopt(
        key=key,
        origin=place.origin,
        origin_stream=place.stream,
        blocks=blocks,
        as_group=ulids.derive(sight.now, "adopt", key, wish.plan_id),
        source=source,
        bytes=sum(each.folder.size for each in members),
        rows=sum(each.meta.stats.num_samples for each in members),
        reason=wish.reason or "asked for",
    )
