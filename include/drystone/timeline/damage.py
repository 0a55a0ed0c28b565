"""What is wrong with a stream: damage (rows that cannot be read) and problems (everything worth a report).

Source: the design, "Visibility: damage". A reader stops at damage; a problem harms nothing but itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drystone.block.states import Times, is_fresh, is_from_future
from drystone.timeline.cover import Covering, Realm, realm_of
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


def find_damage(
    incomplete: Iterable[Group],
    disagreeing: dict[str, str],
    covering: Covering,
    away: Mapping[Realm, frozenset[str]],
    replaced: Mapping[str, str],
    fresh_since: int,
) -> list[Damage]:
    """Return the incomplete groups that hold something which no visible group holds, and which is not `away` for good.

    `away`: by realm, of each realm of these groups.
    Where everything is visible elsewhere, the group is a compaction that runs or crashed. A replacement whose root, or
    what else has taken its place (`replaced`), is still visible has not begun to count. A group of which nothing is
    older than `fresh_since` (ms) was never read.
    """
    found: list[Damage] = []
    for group in incomplete:
        if all(block.touched > fresh_since for block in group.blocks):
            continue
        realm = realm_of(group)
        starting = {
            pair.by
            for pair in group.retires
            if covering.holds(realm, pair.root) or covering.holds(realm, replaced.get(pair.root, pair.root))
        }
        lost = {s for s in group.sources - away[realm] - starting if not covering.holds(realm, s)}
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
