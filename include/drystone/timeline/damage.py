"""What is wrong with a stream: damage (rows that cannot be read) and problems (everything worth a report).

Source: the design, "Visibility: damage". A reader stops at damage; a problem harms nothing but itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drystone.block.states import Times, is_fresh, is_from_future
from drystone.timeline.cover import Covering, Realm, realm_of
from drystone.timeline.gone import Gone
from drystone.timeline.groups import Group
from drystone.timeline.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Problem:
    """Something to report: its kind, the name of the block, group or key, and one line for a person."""

    kind: str
    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Damage:
    """Rows that should be readable and are not. The time range is None where nobody can tell it."""

    name: str
    text: str
    min_time: int | None = None
    max_time: int | None = None


def find_problems(snapshot: Snapshot, now: int, times: Times) -> tuple[list[Problem], list[Damage]]:
    """Return the problems of single folders and keys, and the damage that no timeline can judge.

    That is a block past syncDelay whose meta.json cannot be used: nobody can tell whether its rows are elsewhere.
    """
    problems = [Problem("stray", key, f"{key} belongs to no block, and is left alone.") for key in snapshot.strays]
    problems += [Problem("unreadable", key, reason) for key, reason in snapshot.unreadable.items()]
    damage: list[Damage] = []
    for ulid, folder in snapshot.folders.items():
        if is_from_future(folder, now, times):
            problems.append(Problem("future", ulid, f"block {ulid} is from the future: check its writer's clock."))
        if folder.meta_error:
            problems.append(Problem("malformed", ulid, folder.meta_error))
            if not is_fresh(folder, now, times):
                damage.append(Damage(ulid, folder.meta_error))
        elif folder.meta is not None and folder.meta.drystone is None:
            problems.append(Problem("foreign", ulid, f"block {ulid} is another tool's, and is not read."))
        missing = () if folder.has_mark else folder.missing_files()
        if missing:
            problems.append(Problem("malformed", ulid, f"block {ulid}: {'; '.join(missing)}."))
        problems += [
            Problem("stray", f"{ulid}/{name}", f"block {ulid}: {name} is no part of the block, and is left alone.")
            for name in folder.stray_files()
        ]
        if folder.mark_error:
            problems.append(Problem("unreadable-mark", ulid, folder.mark_error))
        elif folder.mark is not None and folder.mark.id != ulid:
            text = f"block {ulid}: its deletion mark names {folder.mark.id}; the folder's name decides."
            problems.append(Problem("foreign-mark", ulid, text))
    return problems, damage


@dataclass(frozen=True, slots=True)
class Away:
    """Which sources nobody misses: what is gone, and, by realm, what has expired."""

    gone: Gone
    expired: Mapping[Realm, frozenset[str]]

    def of(self, group: Group) -> frozenset[str]:
        """Return them for a group that lacks members.

        If it is a replacement, it also tells itself what it replaces: one that a newer plan's has superseded, or whose
        root was retired, is missed by nobody.
        """
        known = self.gone.sources | self.expired.get(realm_of(group), frozenset())
        if not group.retires:
            return known
        # Not its roots: they are away only if it counts, and whether it does is the question.
        return known | (self.gone.also(group.retires).sources - {pair.root for pair in group.retires})

    def in_place_of(self, root: str) -> tuple[str, ...]:
        """Return the source that is read in place of a replaced one; if it is not replaced, itself."""
        by = self.gone.replaced.get(root)
        return (root,) if by is None else (by,)


def away_of(gone: Gone, expired: Iterable[Group]) -> Away:
    """Return what nobody misses, given the groups of which every row is expired."""
    found: dict[Realm, frozenset[str]] = {}
    for group in expired:
        found[realm_of(group)] = found.get(realm_of(group), frozenset()) | group.sources
    return Away(gone, found)


def find_damage(
    incomplete: Iterable[Group],
    disagreeing: dict[str, str],
    covering: Covering,
    away: Away,
    at: int,
    times: Times,
) -> list[Damage]:
    """Return the incomplete groups that hold something which no visible group holds, and which is not `away` for good.

    Where everything is visible elsewhere, the group is a compaction that runs or crashed. A replacement that was never
    whole, and whose root, or what else has taken its place, is visible or away, has not begun to count; one that was
    whole did count, and readers must not quietly go back to its root. A group that is as young as what nobody reads yet
    was never read: younger than syncDelay, or, where it is read at once, too young for everybody to see it.
    """
    found: list[Damage] = []
    hurry = times.max_lag + times.clock_skew
    for group in incomplete:
        if all(block.touched > at - (hurry if block.ignore_delay else times.sync_delay) for block in group.blocks):
            continue
        realm, gone = realm_of(group), away.of(group)
        starting = set[str]()
        if not group.was_whole:
            starting = {
                pair.by
                for pair in group.retires
                if any(each in gone or covering.holds(realm, each) for each in away.in_place_of(pair.root))
            }
        lost = {s for s in group.sources - gone - starting if not covering.holds(realm, s)}
        if lost:
            found.append(Damage(group.id, _describe(group, lost), group.min_time, group.max_time))
    found += [Damage(name, f"group {name}: its blocks disagree about {field}") for name, field in disagreeing.items()]
    return found


def _describe(group: Group, lost: set[str]) -> str:
    there = {block.group_index for block in group.members}
    absent = sorted(set(range(group.pattern.group_size)) - there)
    return (
        f"group {group.id}: member {', '.join(map(str, absent))} of {group.pattern.group_size} cannot be read "
        f"(blocks found: {', '.join(block.ulid for block in group.blocks)}), "
        f"and {len(lost)} of its sources are nowhere else"
    )
