"""Which blocks hold a committed plan's messages now. Source: the design, "Visibility"."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from drystone.block.chunks import chunk_at
from drystone.errors import DamagedStreamError, InputError
from drystone.ingest.export.committed import Committed
from drystone.ingest.export.reading import Messages, Part
from drystone.ingest.export.records import Shape, read
from drystone.ingest.export.task import ExportTask
from drystone.ingest.kafka.plans import Slice, Slices
from drystone.reader.view import View, chunk_files
from drystone.timeline.groups import Group
from drystone.timeline.pending import expiry_of


@dataclass(frozen=True, slots=True)
class Finder:
    """Finds messages in what one look has shown. `memory`: bytes that reading a plan may take."""

    view: View
    shape: Shape
    memory: int

    def task(self, committed: Committed) -> ExportTask | None:
        """Return the task that exports a plan, None while one of its blocks is not ready.

        What was retired, replaced by nothing, or is expired has no block any more, and is not exported. Raises
        DamagedStreamError if a source should have one and has none.
        """
        plan = committed.plan
        slices = read(self.view.bucket, plan.slices_key, Slices)
        if slices is None:
            raise InputError(f"{plan.slices_key} is missing.", "Restore it: it says which blocks hold the messages.")
        held: dict[str, tuple[Group, list[str]]] = {}
        for each in slices.slices:
            if each.stream != plan.stream:
                continue
            source = self.view.timeline.gone.replaced.get(each.source, each.source)
            group = self._owner(source)
            if group is not None:
                held.setdefault(group.id, (group, []))[1].append(source)
            elif not self._is_away(source, each):
                self._check_young(committed, source)
                return None
        parts = tuple(part for group, sources in held.values() for part in self._parts(group, frozenset(sources)))
        sources = tuple(sorted(source for _, found in held.values() for source in found))
        return ExportTask(Messages(self.view.bucket, plan, parts, self.memory), self.shape, sources, self._edits())

    def _owner(self, source: str) -> Group | None:
        holders = self.view.timeline.holders.get((self.view.record.generation, 0))
        return None if holders is None else holders.owner(source)

    def _is_away(self, source: str, each: Slice) -> bool:
        """Tell whether nobody is to read a source that no visible group holds."""
        end = chunk_at(each.chunk_start, each.granularity).end
        expired = end <= expiry_of(self.view.snapshot.edits).before(0)
        return expired or source in self.view.timeline.gone.retired

    def _check_young(self, committed: Committed, source: str) -> None:
        times = self.view.record.rules
        late = committed.done.time + times.sync_delay + times.clock_skew + times.max_lag
        if self.view.timeline.at > late:
            msg = f"source {source} of {committed.plan} is in no block that can be read."
            raise DamagedStreamError(msg, "`drystone verify` tells what became of it.")

    def _parts(self, group: Group, sources: frozenset[str]) -> list[Part]:
        edits = self.view.timeline.visible[group.id].edits
        found = []
        for block in group.members:
            meta = self.view.snapshot.folders[block.ulid].meta
            if meta is None or not block.rows:
                continue
            found.append(Part(block.ulid, chunk_files(self.view.record.stream, meta), sources, edits))
        return found

    def _edits(self) -> str:
        """Return the digest of all edits, which alone take messages away."""
        names = ",".join(sorted(edit.id for edit in self.view.snapshot.edits))
        return hashlib.sha256(names.encode()).hexdigest()[:16]
