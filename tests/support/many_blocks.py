"""A stream of thousands of blocks in a moment: a few real ones, and copies of them with metas of their own.

Copies share their originals' files and rows; who reads rows would find the same ones again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from lakes import DAY, FIRST_DAY, HOUR, Lake, rows

from drystone import ulids
from drystone.block import keys
from drystone.block.marks import DELETION_MARK, DeletionMark
from drystone.block.meta import META_FILE, Compaction, Group, Meta, Parent, TimeChunk
from drystone.testing.streams import build_block, source_id, with_source, write_record

PER_DAY = 40


@dataclass
class Copies:
    """Makes copies of `originals` in a stream of a lake's bucket."""

    lake: Lake
    stream: str
    originals: list[Meta]
    random: Random = field(default_factory=lambda: Random(1))

    def block(self, start: int, end: int, *parents: Meta) -> Meta:
        """Write a block of rows with start <= time < end (ms), made of its parents or of a source of its own."""
        self.lake.clock.advance(7)
        now = self.lake.clock.now
        sources = [source for parent in parents for source in parent.compaction.sources]
        original = self.random.choice(self.originals)
        ulid = ulids.new(now)
        extension = dict(original.thanos.extensions["drystone"])
        day = start // DAY * DAY
        extension["time_chunk"] = TimeChunk(start=day, end=day + DAY, granularity="day").model_dump()
        if parents:
            extension["group"] = Group(id=ulids.new(now), size=1, index=0).model_dump()
        compaction = Compaction(
            level=max((parent.compaction.level for parent in parents), default=0) + 1,
            sources=tuple(sources) or (source_id(now, f"{self.stream} {start} {ulid}"),),
            parents=tuple(Parent(ulid=p.ulid, min_time=p.min_time, max_time=p.max_time) for p in parents),
        )
        thanos = original.thanos.model_copy(update={"extensions": {"drystone": extension}})
        meta = original.model_copy(
            update={"ulid": ulid, "min_time": start, "max_time": end, "compaction": compaction, "thanos": thanos}
        )
        self._write(original, meta, now)
        return meta

    def _write(self, original: Meta, meta: Meta, now: int) -> None:
        origin, folder = (self._folder(each.ulid) for each in (original, meta))
        (folder / "chunks").mkdir(parents=True)
        for file in origin.rglob("*"):
            if file.is_file() and file.name != META_FILE:
                os.link(file, folder / file.relative_to(origin))
        self._put(folder / META_FILE, meta.to_json(), now)

    def mark(self, meta: Meta) -> None:
        """Mark a block for deletion."""
        now = self.lake.clock.now
        mark = DeletionMark(id=meta.ulid, details="covered", deletion_time=now // 1000)
        self._put(self._folder(meta.ulid) / DELETION_MARK, mark.to_json(), now)

    def partial(self) -> None:
        """Leave what an upload that died leaves."""
        self.lake.clock.advance(7)
        now = self.lake.clock.now
        chunks = self._folder(ulids.new(now)) / "chunks"
        chunks.mkdir(parents=True)
        self._put(chunks / "000001.parquet", b"half", now)

    def _folder(self, ulid: str) -> Path:
        return self.lake.bucket.path(keys.block(self.stream, ulid).rstrip("/"))

    def _put(self, file: Path, data: bytes, now: int) -> None:
        file.write_bytes(data)
        os.utime(file, (now / 1000, now / 1000))


def make_many(lake: Lake, stream: str, blocks: int) -> None:
    """Give a lake another stream of so many blocks: days of small ones, the older half merged, the oldest marked.

    Three are uploads that died.
    """
    write_record(lake.bucket, stream, lake.config)
    originals = [
        build_block(
            lake.bucket,
            stream,
            lake.config,
            with_source(rows(number), source_id(lake.clock.now, f"{stream} original {number}")),
            lake.clock,
        )
        for number in range(4)
    ]
    copies = Copies(lake, stream, originals)
    left = blocks - len(originals) - 3
    days = left // PER_DAY
    merged = days // 2
    for day in range(days):
        left = _day(copies, FIRST_DAY + (day + 1) * DAY, left, merge=day < merged, mark=day < merged // 2)
    while left > 0:
        copies.block(FIRST_DAY, FIRST_DAY + HOUR)
        left -= 1
    for _ in range(3):
        copies.partial()


def _day(copies: Copies, day: int, left: int, *, merge: bool, mark: bool) -> int:
    number = min(PER_DAY, left) - merge
    step = DAY // PER_DAY
    found = [copies.block(day + at * step, day + (at + 1) * step + step // 2 * (at % 3 == 0)) for at in range(number)]
    if merge:
        copies.block(day, day + DAY, *found)
    for meta in found if mark else ():
        copies.mark(meta)
    return left - number - merge
