"""Random buckets that both Thanos and Drystone understand: in Thanos' own words, and in all of Drystone's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random

from drystone import ulids
from drystone.block import meta as block_meta
from drystone.block.edits import Edit
from drystone.block.folder import Folder
from drystone.block.meta import META_FILE
from drystone.block.states import Times
from drystone.errors import UnreadableBlockError
from drystone.plan.removal import justify
from drystone.testing.folders import folder_of, marked, meta_of, snapshot_of
from drystone.testing.happenings import random_history
from drystone.testing.history import BEGIN, DAY
from drystone.testing.writers import FIVE_MINUTES
from drystone.timeline.blocks import Block
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve

HOUR = 3_600_000
TIMES = Times()


@dataclass(frozen=True)
class Stream:
    """A stream in a bucket. `blocks` are what the writers meant, `metas` what their meta.json says; by ULID."""

    name: str
    now: int
    blocks: Mapping[str, Block]
    metas: Mapping[str, bytes]
    marks: frozenset[str] = frozenset()
    edits: tuple[Edit, ...] = ()

    @cached_property
    def snapshot(self) -> Snapshot:
        """What Drystone's tracker would observe."""
        return snapshot_of((self._folder(block) for block in self.blocks.values()), self.now, edits=self.edits)

    def _folder(self, block: Block) -> Folder:
        folder = folder_of(block)
        try:
            meta = block_meta.parse(self.metas[block.ulid], block.ulid)
            folder = replace(folder, meta=meta, sources=frozenset(meta.compaction.sources))
        except UnreadableBlockError as error:
            folder = replace(folder, meta=None, sources=frozenset(), meta_error=str(error))
        return marked(folder, self.now - HOUR) if block.ulid in self.marks else folder

    @cached_property
    def timeline(self) -> Timeline:
        """What Drystone makes of it."""
        return resolve(self.snapshot, TIMES)

    @cached_property
    def superseded(self) -> frozenset[str]:
        """The blocks that Drystone may remove, marked or not."""
        return frozenset(justify(self.snapshot, self.timeline, TIMES))

    def write(self, folder: Path) -> Path:
        """Write every meta.json into a folder, where Thanos looks for it."""
        for ulid, raw in self.metas.items():
            path = folder / ulid / META_FILE
            path.parent.mkdir(parents=True)
            path.write_bytes(raw)
        return folder


def in_drystones_words(seed: int) -> Stream:
    """Return a stream with everything that may happen to one: groups, edits, replacements, damage; all of it ready.

    Some are ingested anew, as their next generation, from the same files: from the same sources.
    """
    dice = Random(seed)
    history = random_history(dice)
    if dice.randint(0, 4) == 0:
        first = history.blocks[0]
        again = history.new_ulid(history.now)
        history.blocks.append(replace(first, ulid=again, group=again, generation=first.generation + 1))
    now = history.now + TIMES.group_timeout + TIMES.sync_delay
    blocks = {block.ulid: block for block in history.blocks}
    metas = {ulid: meta_of(block).to_json() for ulid, block in blocks.items()}
    return Stream(f"drystone-{seed}", now, blocks, metas, edits=tuple(history.edits))


def in_thanos_words(seed: int) -> Stream:
    """Return a stream of single blocks, as Thanos knows them, with what people and other tools do to such a bucket.

    First generations, some of them twice; compactions of any blocks, of compactions too, at any resolution, some with a
    time range that is too short; marks on any block; empty source lists, and a meta.json of another version.
    """
    draft = _Draft(Random(seed))
    dice = draft.dice
    for _ in range(dice.randint(1, 5)):
        draft.upload()
    for _ in range(dice.randint(0, 7)):
        dice.choice([draft.upload_again, *[draft.compact] * 4])()
    metas = {ulid: meta_of(block).to_json() for ulid, block in draft.blocks.items()}
    names = sorted(metas)
    marks = frozenset(ulid for ulid in names if dice.randint(0, 9) == 0)
    if dice.randint(0, 19) == 0:
        _change(metas, dice.choice(names), "sources")
    if dice.randint(0, 19) == 0:
        _change(metas, dice.choice(names), "version")
    return Stream(f"thanos-{seed}", BEGIN + 400 * DAY, draft.blocks, metas, marks)


def _change(metas: dict[str, bytes], ulid: str, what: str) -> None:
    document = json.loads(metas[ulid])
    if what == "sources":
        document["compaction"]["sources"] = []
    else:
        document["version"] = 2
    metas[ulid] = json.dumps(document).encode()


@dataclass
class _Draft:
    dice: Random
    blocks: dict[str, Block] = field(default_factory=dict)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)

    def upload(self) -> None:
        low = BEGIN + self.dice.randint(0, 60) * HOUR
        source = ulids.derive(BEGIN + len(self.ranges), "source", str(self.dice.random()))
        self.ranges[source] = (low, low + self.dice.randint(1, 12) * HOUR)
        self._add(frozenset({source}), *self.ranges[source], level=1)

    def upload_again(self) -> None:
        source = self.dice.choice(sorted(self.ranges))
        low, high = self.ranges[source]
        wider = self.dice.choice([0, 0, HOUR])
        self._add(frozenset({source}), low - wider, high + wider, level=1)

    def compact(self) -> None:
        resolution = self.dice.choice(sorted({block.resolution for block in self.blocks.values()}))
        kin = sorted(ulid for ulid, block in self.blocks.items() if block.resolution == resolution)
        inputs = [self.blocks[ulid] for ulid in self.dice.sample(kin, self.dice.randint(1, min(4, len(kin))))]
        low, high = min(block.min_time for block in inputs), max(block.max_time for block in inputs)
        if self.dice.randint(0, 6) == 0:
            low += HOUR // 2
        if resolution == 0 and self.dice.randint(0, 9) == 0:
            resolution = FIVE_MINUTES
        sources = frozenset[str]().union(*(block.sources for block in inputs))
        self._add(sources, low, high, level=1 + max(block.level for block in inputs), resolution=resolution)

    def _add(self, sources: frozenset[str], low: int, high: int, *, level: int, resolution: int = 0) -> None:
        moment = BEGIN + 10 * DAY + len(self.blocks) * HOUR
        ulid = ulids.derive(moment, "block", str(self.dice.random()))
        self.blocks[ulid] = Block(ulid, low, high, sources, moment, ulid, resolution=resolution, level=level, rows=10)
