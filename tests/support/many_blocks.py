"""A stream of thousands of blocks in a moment: a few real ones, and copies of them with metas of their own.

Copies share their originals' files and rows; who reads rows would find the same ones again.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lakes import DAY, FIRST_DAY, HOUR, Lake, rows

from drystone import ulids
from drystone.block import keys
from drystone.block.marks import DELETION_MARK, DeletionMark
from drystone.block.meta import META_FILE, Meta
from drystone.testing.streams import build_block, source_id, with_source, write_record

PER_DAY = 40


@dataclass(frozen=True)
class Copied:
    """A block, as far as one that is made of it has to know."""

    ulid: str
    start: int
    end: int
    level: int
    sources: tuple[str, ...]


@dataclass
class Copies:
    """Makes copies of `originals` in a stream of a lake's bucket."""

    lake: Lake
    stream: str
    originals: list[Meta]
    random: Random = field(default_factory=lambda: Random(1))

    def __post_init__(self) -> None:
        """Look at the originals once."""
        self.metas = [json.loads(meta.to_json()) for meta in self.originals]
        folders = [self._folder(meta.ulid) for meta in self.originals]
        self.files = [
            [(file, str(file.relative_to(folder))) for file in folder.rglob("*") if file.is_file()]
            for folder in folders
        ]

    def block(self, start: int, end: int, *parents: Copied) -> Copied:
        """Write a block of rows with start <= time < end (ms), made of its parents or of a source of its own."""
        self.lake.clock.advance(7)
        ulid = ulids.new(self.lake.clock.now)
        sources = tuple(source for parent in parents for source in parent.sources)
        made = Copied(
            ulid,
            start,
            end,
            max((parent.level for parent in parents), default=0) + 1,
            sources or (source_id(self.lake.clock.now, f"{self.stream} {ulid}"),),
        )
        which = self.random.randrange(len(self.metas))
        folder = self._folder(ulid)
        os.makedirs(folder / "chunks")  # noqa: PTH103 -- there are ten thousand
        for file, name in self.files[which]:
            if name != META_FILE:
                os.link(file, f"{folder}/{name}")
        self._put(folder / META_FILE, json.dumps(self._meta(self.metas[which], made, parents)).encode())
        return made

    def _meta(self, original: dict[str, Any], made: Copied, parents: tuple[Copied, ...]) -> dict[str, Any]:
        day = made.start // DAY * DAY
        own = original["thanos"]["extensions"]["drystone"] | {
            "time_chunk": {"start": day, "end": day + DAY, "granularity": "day"}
        }
        if parents:
            own["group"] = {"id": ulids.new(self.lake.clock.now), "size": 1, "index": 0}
        compaction = {
            "level": made.level,
            "sources": made.sources,
            "parents": [{"ulid": each.ulid, "minTime": each.start, "maxTime": each.end} for each in parents],
        }
        facts = {"ulid": made.ulid, "minTime": made.start, "maxTime": made.end, "compaction": compaction}
        return original | facts | {"thanos": original["thanos"] | {"extensions": {"drystone": own}}}

    def mark(self, block: Copied) -> None:
        """Mark a block for deletion."""
        mark = DeletionMark(id=block.ulid, details="covered", deletion_time=self.lake.clock.now // 1000)
        self._put(self._folder(block.ulid) / DELETION_MARK, mark.to_json())

    def partial(self) -> None:
        """Leave what an upload that died leaves."""
        self.lake.clock.advance(7)
        chunks = self._folder(ulids.new(self.lake.clock.now)) / "chunks"
        chunks.mkdir(parents=True)
        self._put(chunks / "000001.parquet", b"half")

    def _folder(self, ulid: str) -> Path:
        return self.lake.bucket.path(f"{keys.blocks(self.stream)}{ulid}")

    def _put(self, file: Path, data: bytes) -> None:
        file.write_bytes(data)
        os.utime(file, (self.lake.clock.now / 1000, self.lake.clock.now / 1000))


def make_many(lake: Lake, stream: str, blocks: int) -> None:
    """Give a lake another stream of so many blocks: days of small ones, the older half merged, the oldest marked.

    Three are uploads that died.
    """
    write_record(lake.bucket, stream, lake.config)
    originals = []
    for number in range(4):
        given = with_source(rows(number), source_id(lake.clock.now, f"{stream} original {number}"))
        originals.append(build_block(lake.bucket, stream, lake.config, given, lake.clock))
    copies = Copies(lake, stream, originals)
    left = blocks - len(originals) - 3
    days = left // PER_DAY
    for day in range(days):
        left = _day(copies, FIRST_DAY + (day + 1) * DAY, left, merge=2 * day < days, mark=4 * day < days)
    for number in range(left):
        copies.block(FIRST_DAY + number * HOUR, FIRST_DAY + (number + 1) * HOUR)
    for _ in range(3):
        copies.partial()


def _day(copies: Copies, day: int, left: int, *, merge: bool, mark: bool) -> int:
    number = min(PER_DAY, left) - merge
    step = DAY // PER_DAY
    # Every third one reaches into the next.
    ends = [min((at + 1) * step + step // 2 * (at % 3 == 0), DAY) for at in range(number)]
    found = [copies.block(day + at * step, day + end) for at, end in enumerate(ends)]
    if merge:
        copies.block(day, day + DAY, *found)
    for each in found if mark else ():
        copies.mark(each)
    return left - number - merge
