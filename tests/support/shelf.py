"""A stream on a shelf: blocks of any size and age, put there one by one, and every planner over them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from drystone import ulids
from drystone.block.chunks import Granularity
from drystone.block.edits import Edit, Expire, Retire
from drystone.block.folder import Folder
from drystone.block.guards import Hold, Pin
from drystone.block.journal import Attempt
from drystone.block.meta import Replacement
from drystone.block.states import Times
from drystone.config.model import Compaction, Granularities
from drystone.plan.compaction import CompactionPolicy, plan_major, plan_minor
from drystone.plan.model import Plan
from drystone.plan.removal import Justification, justify, plan_marks, plan_sweep
from drystone.testing import folders
from drystone.timeline.blocks import Block
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve

HOUR = 3_600_000
DAY = 24 * HOUR
FIRST = 1_356_998_400_000
"""2013-01-01 in ms."""
NOW = FIRST + 400 * DAY
TIMES = Times()
META_BYTES = 1000
"""What a block's meta.json takes: sizes below that are rounded up to it."""


@dataclass
class Shelf:
    """The stream, seen at `now`. Groups and sources have short names; a block's name is its ULID's."""

    now: int = NOW
    times: Times = TIMES
    ingest: Granularity = "day"
    major: Granularity = "month"
    folders: dict[str, Folder] = field(default_factory=dict)
    groups: dict[str, str] = field(default_factory=dict)
    edits: list[Edit] = field(default_factory=list)
    holds: list[Hold] = field(default_factory=list)
    pins: list[Pin] = field(default_factory=list)
    journal: list[Attempt] = field(default_factory=list)

    def add(
        self,
        name: str,
        size: int = 2000,
        *,
        of: str = "",
        day: int = 0,
        days: int = 1,
        age: int = DAY,
        members: int = 1,
        there: Iterable[int] | None = None,
        **more: Any,
    ) -> str:
        """Put a group on the shelf that holds one source per letter of `of`, by default its own; return its id.

        `size`: bytes of each member. `there`: the indexes that exist, by default all. `age`: ms since it was touched.
        """
        moment = self.now - age
        group = ulids.derive(moment, "group", name)
        self.groups[name] = group
        for index in range(members) if there is None else there:
            ulid = ulids.derive(moment, name, str(index))
            block = Block(
                ulid=ulid,
                min_time=FIRST + day * DAY,
                max_time=FIRST + (day + days) * DAY,
                sources=frozenset(self.source(letter) for letter in of or name),
                touched=moment,
                group=group if members > 1 else ulid,
                group_size=members,
                group_index=index,
                rows=10,
                size=size,
            )
            self.put(folders.folder_of(replace(block, **more)))
            if members == 1:
                self.groups[name] = ulid
        return self.groups[name]

    def put(self, folder: Folder) -> None:
        """Put a folder there, or in place of the one of its name."""
        self.folders[folder.ulid] = folder

    def blocks(self, name: str) -> list[str]:
        """Return the ULIDs of a group's blocks."""
        group = self.groups[name]
        return [ulid for ulid, folder in self.folders.items() if ulid == group or _group(folder) == group]

    def change(self, name: str, change: Any, *arguments: Any, **named: Any) -> None:
        """Apply a function of `drystone.testing.folders` to all blocks of a group."""
        for ulid in self.blocks(name):
            self.put(change(self.folders[ulid], *arguments, **named))

    def mark(self, name: str, age: int = 0, **named: Any) -> None:
        """Mark a group's blocks, as of `age` ms ago."""
        self.change(name, folders.marked, self.now - age, **named)

    def source(self, letter: str) -> str:
        """Return the source of a name."""
        return ulids.derive(FIRST + ord(letter), "source", letter)

    def retire(self, letters: str) -> None:
        """Retire sources."""
        named = tuple(self.source(letter) for letter in letters)
        self.edits.append(Retire(id=self._new(), reason="", author="", time=self.now, sources=named))

    def expire(self, day: int) -> None:
        """Expire what lies before a day."""
        self.edits.append(Expire(id=self._new(), reason="", author="", time=self.now, before=FIRST + day * DAY))

    def pair(self, root: str, by: str) -> frozenset[Replacement]:
        """Return that one source replaces another."""
        return frozenset({Replacement(root=self.source(root), by=self.source(by))})

    def hold(self, *names: str, expires: int = NOW + DAY) -> None:
        """Hold groups, or everything."""
        blocks = tuple(ulid for name in names for ulid in self.blocks(name))
        self.holds.append(Hold(owner="ann", reason="a repair", created=0, expires=expires, blocks=blocks))

    def pin(self, expires: int = NOW + DAY) -> None:
        """Pin the stream for a long read."""
        self.pins.append(Pin(owner="read", created=0, expires=expires))

    def snapshot(self) -> Snapshot:
        """Observe."""
        return folders.snapshot_of(
            self.folders.values(),
            self.now,
            edits=self.edits,
            holds=self.holds,
            pins=self.pins,
            journal=self.journal,
        )

    def timeline(self) -> Timeline:
        """Observe and resolve."""
        return resolve(self.snapshot(), self.times)

    def policy(self, **rules: Any) -> CompactionPolicy:
        """Return the stream's policy with other rules of compaction."""
        given = {"target_block_bytes": "100KB", **rules}
        granularity = Granularities(ingest=self.ingest, major=self.major)
        return CompactionPolicy(Compaction.model_validate(given), granularity, self.times)

    def minor(self, batches: int = 1, **rules: Any) -> Plan:
        """Plan a minor compaction."""
        return plan_minor(self.snapshot(), self.timeline(), self.policy(**rules), "plan", batches)

    def major_plan(self, batches: int = 1, **rules: Any) -> Plan:
        """Plan a major compaction."""
        return plan_major(self.snapshot(), self.timeline(), self.policy(**rules), "plan", batches)

    def marks(self) -> Plan:
        """Plan what to mark and unmark."""
        return plan_marks(self.snapshot(), self.timeline(), self.times, "plan")

    def sweep(self) -> Plan:
        """Plan what to delete."""
        return plan_sweep(self.snapshot(), self.timeline(), self.times, "plan")

    def justified(self) -> dict[str, Justification]:
        """Return what may go, by the short name of its group."""
        found = justify(self.snapshot(), self.timeline(), self.times)
        return {name: found[ulid] for ulid in found for name in self.groups if ulid in self.blocks(name)}

    def names(self, groups: Iterable[str]) -> set[str]:
        """Return the short names of groups or blocks."""
        ids = {ulid: name for name in self.groups for ulid in (self.groups[name], *self.blocks(name))}
        return {ids[each] for each in groups}

    def merges(self, plan: Plan) -> list[set[str]]:
        """Return the short names of the groups of each merge."""
        return [self.names(merge.groups) for merge in plan.merges]

    def skips(self, plan: Plan) -> dict[str, str]:
        """Return why what was skipped, by its short name or label."""
        ids = {group: name for name, group in self.groups.items()}
        ids |= {ulid: name for name in self.groups for ulid in self.blocks(name)}
        return {ids.get(skip.name, skip.name): skip.reason for skip in plan.skipped}

    def _new(self) -> str:
        return ulids.derive(self.now, "edit", str(len(self.edits)))


def _group(folder: Folder) -> str:
    extension = folder.meta.drystone if folder.meta is not None else None
    return extension.group.id if extension is not None and extension.group is not None else ""
