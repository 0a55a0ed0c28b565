"""What is true of a simulated stream, and the five invariants held against it.

It learns from every change of the bucket, at the moment when it is made, and shares no code with what it judges, but
for the formats. Source: the design, "Visibility: what must hold".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from drystone import ulids
from drystone.block import edits as block_edits
from drystone.block import keys
from drystone.block import meta as block_meta
from drystone.block.chunks import Granularity, chunk_at
from drystone.block.edits import Edit, Erase, Expire, Retire
from drystone.block.marks import DELETION_MARK, MARKS, NO_COMPACT_MARK
from drystone.block.meta import META_FILE
from drystone.block.states import Times
from drystone.bucket import Bucket
from drystone.ingest.files import FilePlan
from drystone.plan.model import Plan
from drystone.testing.invariants import BrokenInvariantError
from drystone.testing.simulation.facts import ACCIDENT, Read, Ready, Row, TrueBlock, selects
from drystone.testing.simulation.families import Families
from drystone.testing.simulation.lagging import Change

_ON_ITS_WAY = 5 * 60_000
"""A deletion that was asked for may take so long (ms): what changes meanwhile cannot stop it."""


class Truth:
    """The stream as it is: `rows` by source, `settled` what everyone can read since when, edits since when."""

    def __init__(self, bucket: Bucket, stream: str, times: Times, granularity: Granularity) -> None:
        """`bucket`: as it is, without lag and faults."""
        self.bucket = bucket
        self.stream = stream
        self.times = times
        self.granularity: Granularity = granularity
        self.files: dict[str, tuple[Row, ...]] = {}
        self.corrections: dict[str, tuple[Row, ...]] = {}
        self.families = Families()
        self.rows: dict[str, tuple[Row, ...]] = {}
        self.blocks: dict[str, TrueBlock] = {}
        self.edits: dict[str, tuple[Edit, int]] = {}
        self.settled: dict[str, int] = {}
        self.possible: dict[str, int] = {}
        self.lost: dict[str, int] = {}
        self.healed = self.struck = -(1 << 62)
        self.maimed: set[str] = set()
        self.reads: list[Read] = []
        self.completed: set[str] = set()
        self.written: dict[str, set[str]] = {}
        self.tally: Counter[str] = Counter()

    @property
    def read_timeout(self) -> int:
        """How long a read may take without a pin, ms."""
        return self.times.read_timeout

    def changed(self, change: Change) -> bool:
        """Learn from a change; tell whether it may change what can be read. Raises BrokenInvariantError."""
        self.advance(change.time)
        name = change.key.removeprefix(keys.blocks(self.stream))
        parsed = keys.parse_block(change.key, self.stream)
        there = self._size(change.key)
        if parsed is not None and there is None:
            return self._gone(*parsed, change)
        if parsed is not None and there is not None:
            return self._written(*parsed, there, change)
        if name.startswith(".edits/") and there is not None:
            self.edits[change.key] = (block_edits.parse(self.bucket.get(change.key), change.key), change.time)
            return True
        if name.startswith(".plans/") and there is not None:
            self._replacing(Plan.model_validate_json(self.bucket.get(change.key)))
        if name.startswith(".ingest/") and name.endswith(".json") and there is not None:
            self._planned(FilePlan.model_validate_json(self.bucket.get(change.key)))
        return False

    def advance(self, now: int) -> None:
        """Note what has become readable for everybody, and what perhaps for somebody."""
        ready = self._ready()
        if self.lost:
            here = {source for group in ready if group.surely <= now for source in group.sources}
            if here & self.lost.keys():
                self.healed = now
            self.lost = {source: since for source, since in self.lost.items() if source not in here}
        self.completed.update(group.id for group in ready)
        for group in ready:
            for source in group.sources:
                self.possible[source] = min(group.perhaps, self.possible.get(source, group.perhaps))
                if group.surely + self.times.clock_skew <= now:
                    self.settled[source] = min(group.surely, self.settled.get(source, group.surely))

    def due(self, at: int) -> set[str]:
        """Return the sources that whoever looks at `at`, by a clock that may be wrong, must read, unless replaced."""
        found = {source for source, since in self.settled.items() if since <= at}
        return found.union(*(group.sources for group in self._ready() if group.surely <= at))

    def replaced(self, source: str, by: int) -> bool:
        """Tell whether somebody may read another source in place of this one at `by`."""
        return any(self.possible.get(each, by + 1) <= by for each in self.families.after(source))

    def wanted(self, at: int, until: int, before: int) -> set[Row]:
        """Return the rows that whoever looked at `at` first, and at `until` last, must get; edits as in `kept`.

        Of a source and its replacements one is read: the newest that is due, or one that some see already.
        """
        due, found = self.due(at), set[Row]()
        for first in {self.families.first(source) for source in due}:
            family = self.families.of(first)
            last = max(index for index, each in enumerate(family) if each in due)
            seen = [each for each in family[last + 1 :] if self.possible.get(each, until + 1) <= until]
            found |= set[Row].intersection(*(self.kept([each], before) for each in (family[last], *seen)))
        return found

    def allowed(self, at: int, before: int) -> set[Row]:
        """Return the rows that who looked at `at` first may get: all but what is gone, or replaced for everybody."""
        gone = {
            source
            for source in self.rows
            if any(self.settled.get(each, at + 1) <= at for each in self.families.after(source))
            and self.families.first(source) not in self.maimed
        }
        return self.kept(self.rows.keys() - gone, before)

    def kept(self, sources: Iterable[str], before: int) -> set[Row]:
        """Return the rows of these sources that no edit takes away which was made (true time) up to `before`."""
        known = [edit for edit, made in self.edits.values() if made <= before]
        return {row for s in sources for row in self.rows.get(s, ()) if not any(self._takes(e, s, row) for e in known)}

    def holders(self, source: str, now: int, without: str = "", whole_at: int | None = None) -> list[list[TrueBlock]]:
        """Return the members of each group that is ready now and has the source, were it not for one block.

        `whole_at`: what an accident has hit since then counts as whole.
        """
        ready = self._ready(without, whole_at)
        return [group.blocks for group in ready if group.perhaps <= now and source in group.sources]

    def check_read(self, read: Read, rows: Iterable[Row], now: int) -> None:
        """Invariants 1 to 3: raise BrokenInvariantError unless these are the rows that the read had to give."""
        self.advance(now)
        got = Counter(rows)
        if twice := {row for row, times in got.items() if times > 1}:
            raise BrokenInvariantError(f"1: {read.name} read rows twice: {sorted(twice)}")
        must = self.wanted(read.looked[0], read.looked[-1], before=now)
        if (missing := must - got.keys()) and not self.may_see_damage(read.began):
            raise BrokenInvariantError(f"1: {read.name} did not read {sorted(missing)}")
        if missing and (lost := [s for s, since in self.lost.items() if since + self.times.max_lag <= read.began]):
            raise BrokenInvariantError(f"1: {read.name} was not told that rows of {sorted(lost)} are missing")
        since = self._readable_since()
        if young := {row for row in got if since.get(row, now * 2) > read.looked[-1]}:
            raise BrokenInvariantError(f"3: {read.name} read what was not ready: {sorted(young)}")
        allowed = self.allowed(read.looked[0], before=read.began - self.times.max_lag)
        if back := got.keys() - allowed:
            raise BrokenInvariantError(f"2: {read.name} read rows that are gone: {sorted(back)}")

    def may_see_damage(self, since: int) -> bool:
        """Tell whether whoever has read since then may be told of damage: something is lost, or was never whole."""
        half = (block for block in self.blocks.values() if META_FILE in block.files and not block.whole)
        never_read = any(not block.sources <= self.settled.keys() for block in half)
        return bool(self.lost) or never_read or self.healed + self.times.max_lag >= since

    def _readable_since(self) -> dict[Row, int]:
        """Return for each row when somebody could read it first, from whichever source."""
        found: dict[Row, int] = {}
        for source, since in self.possible.items():
            for row in self.rows.get(source, ()):
                found[row] = min(since, found.get(row, since))
        return found

    def _replacing(self, plan: Plan) -> None:
        """Learn what rows the sources would have that a repair makes in place of others."""
        for action in plan.replaces:
            for swap in action.swaps:
                self.families.learn(swap.root, swap.by)
                self.rows[swap.by] = tuple(row for row in self.rows[swap.root] if not selects(action.where, row))
        for upload in plan.reuploads:
            self.families.learn(upload.root, upload.by)
            self.rows[upload.by] = self.corrections[Path(upload.path).name]

    def _planned(self, plan: FilePlan) -> None:
        for row in self.files[plan.path]:
            source = plan.source(chunk_at(row.time, self.granularity))
            self.rows[source] = tuple(sorted({*self.rows.get(source, ()), row}))

    def _written(self, ulid: str, name: str, size: int, change: Change) -> bool:
        block = self.blocks.setdefault(ulid, TrueBlock(ulid, change.by))
        if name == DELETION_MARK:
            block.marked = change.time
        block.given_up |= name == NO_COMPACT_MARK
        if name in MARKS:
            return False
        block.files[name] = size
        self.written.setdefault(ulid, set()).add(name)
        block.active = change.time
        if name == META_FILE:
            meta = block_meta.parse(self.bucket.get(change.key), ulid)
            extension = meta.drystone
            group = extension.group if extension is not None else None
            block.wanted = {f.rel_path: f.size_bytes or 0 for f in meta.thanos.files if f.rel_path != META_FILE}
            if never := block.wanted.keys() - self.written[ulid]:
                raise BrokenInvariantError(
                    f"rule 3: {change.by} wrote meta.json of block {ulid} before {sorted(never)}"
                )
            block.sources = frozenset(meta.compaction.sources)
            block.group, block.size, block.index = (group.id, group.size, group.index) if group else (ulid, 1, 0)
            block.touched = max(ulids.time_of(ulid), change.time)
            block.listed, block.at_once = change.time, extension is not None and extension.ignore_delay
            self._count_upload(block, level=meta.compaction.level)
        return block.wanted is not None

    def _count_upload(self, block: TrueBlock, *, level: int) -> None:
        if level == 1 and block.sources <= self.possible.keys():
            self.tally["late uploads"] += 1
        elif block.sources <= self.families.replacements:
            self.tally["replacements"] += 1
        others = [each for each in self.blocks.values() if each is not block and each.group == block.group]
        self.tally["twins"] += any(each.index == block.index for each in others)
        for group in self._ready():
            theirs = group.sources
            if group.id != block.group and theirs & block.sources and not theirs <= block.sources:
                self.tally["overlaps"] += 1
                break

    def _gone(self, ulid: str, name: str, change: Change) -> bool:
        block = self.blocks.setdefault(ulid, TrueBlock(ulid, change.by))
        if name == DELETION_MARK:
            block.marked = None
        if name in MARKS:
            self._forget_if_empty(block)
            return False
        was_readable = META_FILE in block.files
        if change.by != ACCIDENT:
            self._check_deletion(block, name, change)
        del block.files[name]
        self._forget_if_empty(block)
        if change.by == ACCIDENT:
            block.struck = self.struck = change.time
            read = {source for source in block.sources if not self.replaced(source, change.time)}
            held = {source for source in read if self.holders(source, change.time)}
            self._lose(read - held, change.time)
        return was_readable

    def _lose(self, sources: set[str], now: int) -> None:
        self.lost |= dict.fromkeys(sources, now)
        self.maimed |= {self.families.first(source) for source in sources}

    def _forget_if_empty(self, block: TrueBlock) -> None:
        if not block.files and block.marked is None:
            del self.blocks[block.ulid]

    def _check_deletion(self, block: TrueBlock, name: str, change: Change) -> None:
        """Invariant 4, and rule 8: meta.json first."""
        where, now = f"{change.by} deleted {name} of block {block.ulid}", change.time
        own = change.by == block.by
        if META_FILE not in block.files:
            idle = max(ulids.time_of(block.ulid), block.active) + self.times.sync_delay + self.times.delete_delay
            if block.wanted is None and not own and idle > now + self.times.clock_skew:
                raise BrokenInvariantError(f"4: {where}, whose upload may still run")
            return
        if name != META_FILE and not own:
            raise BrokenInvariantError(f"rule 8: {where} before its meta.json")
        kin = [each for each in self.blocks.values() if each.group == block.group]
        youngest = max(each.touched for each in kin)
        runs = youngest + self.times.group_timeout > now + self.times.clock_skew
        if runs and not own and block.whole and block.group not in self.completed and self.kept(block.sources, now):
            raise BrokenInvariantError(f"4: {where}, whose group may still be in upload")
        for read in self.reads:
            if block.ulid in read.blocks and (read.pinned or now <= read.began + self.read_timeout):
                raise BrokenInvariantError(f"4: {where}, which {read.name} is reading since {now - read.began} ms")
        if block.whole or not own:  # A writer that comes too late takes back what has lost its files meanwhile.
            self._check_copies(block, where, now)

    def _check_copies(self, block: TrueBlock, where: str, now: int) -> None:
        """Invariant 4: what the block holds is held by others, who were not marked when the deletion was decided."""
        limit = now - self.times.max_lag - _ON_ITS_WAY
        for source in block.sources & self.settled.keys():
            if self.replaced(source, now) or not self.kept([source], before=now):
                continue
            others = self.holders(source, now, without=block.ulid, whole_at=limit)
            if not any(self._lasts(group, limit) for group in others):
                marked = " that was not marked" if others else ""
                raise BrokenInvariantError(f"4: {where}, the last copy of source {source}{marked}")
            if not self.holders(source, now, without=block.ulid):
                self._lose({source}, now)  # An accident took the other copy, too late for this deletion to notice.

    def _lasts(self, group: Iterable[TrueBlock], limit: int) -> bool:
        """Whether no member was marked by then."""
        return all(block.marked is None or block.marked > limit for block in group)

    def _ready(self, without: str = "", whole_at: int | None = None) -> list[Ready]:
        """Return the groups that are complete, one block per index, without one block; `whole_at`: as in `holders`."""
        members: dict[str, dict[int, TrueBlock]] = {}
        for block in self.blocks.values():
            spared = whole_at is not None and block.struck is not None and block.struck > whole_at
            if (block.whole or spared) and block.ulid != without:
                found = members.setdefault(block.group, {})
                if block.index not in found or block.touched < found[block.index].touched:
                    found[block.index] = block
        groups = (list(found.values()) for found in members.values())
        return [self._since(group) for group in groups if len(group) == group[0].size]

    def _since(self, group: list[TrueBlock]) -> Ready:
        if group[0].at_once:
            seen = max(block.listed for block in group)
            skew = self.times.clock_skew
            return Ready(seen - skew, seen + self.times.max_lag + skew, group)
        ready = max(block.touched for block in group) + self.times.sync_delay
        return Ready(ready, ready, group)

    def _takes(self, edit: Edit, source: str, row: Row) -> bool:
        match edit:
            case Expire():
                return row.time < edit.before
            case Retire():
                return any(each in edit.sources for each in self.families.lineage(source))
            case Erase():
                limit = edit.time + self.times.clock_skew
                planned = any(ulids.time_of(each) < limit for each in self.families.lineage(source))
                return planned and selects(edit.predicate, row)
            case _:
                raise NotImplementedError(edit)

    def _size(self, key: str) -> int | None:
        found = next(iter(self.bucket.list(key)), None)
        return found.size if found is not None and found.key == key else None
