"""How many rows an edit takes: counted in the blocks, by reading only the columns that it looks at.

Row groups whose statistics speak against a match are not read at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from drystone.block import keys
from drystone.block.edits import Edit, Retire
from drystone.block.folder import Folder
from drystone.block.meta import Meta
from drystone.bucket.files import open_input
from drystone.bucket.protocol import Bucket
from drystone.engine.decoding import decoding
from drystone.plan.edits import Seen
from drystone.plan.model import Plan, Taken, WriteEdit
from drystone.rows import expressions
from drystone.timeline.pending import PendingEdit

_Hit = Callable[[pa.Schema], pc.Expression]


@dataclass(frozen=True, slots=True)
class BlockHits:
    """Of one block, how many of its rows each edit takes that it has not applied; can be sent to other processes."""

    bucket: Bucket
    stream: str
    time_column: str

    def count(self, meta: Meta, edits: tuple[PendingEdit, ...]) -> dict[str, int]:
        """Return the rows by the id of the edit.

        Raises ObjectMissingError if the block has gone, DamagedStreamError if it cannot be read.
        """
        found: dict[str, int] = {}
        for edit in edits:

            def hit(schema: pa.Schema, edit: PendingEdit = edit) -> pc.Expression:
                return expressions.hit_by(edit, self.time_column, schema)

            found[edit.edit.id] = _count(self.bucket, self.stream, meta, hit)
        return found


def counted(bucket: Bucket, seen: Seen, time_column: str, plan: Plan) -> Plan:
    """Return the plan with the exact number of rows that each of its edits takes; groups without any are left out.

    Raises as `BlockHits.count` does.
    """
    edits = tuple(_counted(bucket, seen, time_column, each) for each in plan.edits)
    return plan.model_copy(update={"edits": edits})


def _counted(bucket: Bucket, seen: Seen, time_column: str, action: WriteEdit) -> WriteEdit:
    found: list[Taken] = []
    for taken in action.taken:
        excluded = seen.timeline.visible[taken.group].excluded
        if taken.whole and not excluded:
            found.append(taken)
            continue
        hit = _hit(action.edit, taken, excluded, time_column)
        metas = _metas(seen.snapshot.folders, taken.blocks)
        rows = {ulid: _count(bucket, seen.snapshot.stream, meta, hit) for ulid, meta in metas.items()}
        blocks = tuple(ulid for ulid in taken.blocks if rows.get(ulid))
        if blocks:
            found.append(taken.model_copy(update={"rows": sum(rows.values()), "blocks": blocks}))
    return action.model_copy(update={"taken": tuple(found), "counted": True})


def _metas(folders: Mapping[str, Folder], blocks: tuple[str, ...]) -> dict[str, Meta]:
    return {ulid: meta for ulid in blocks if (meta := folders[ulid].meta) is not None}


def _hit(edit: Edit, taken: Taken, excluded: frozenset[str], time_column: str) -> _Hit:
    def hit(schema: pa.Schema) -> pc.Expression:
        if isinstance(edit, Retire):
            found = expressions.in_sources(edit.sources)
        else:
            sources = frozenset(taken.sources) or None
            found = expressions.hit_by(PendingEdit(edit, sources), time_column, schema)
        return found & ~expressions.in_sources(excluded) if excluded else found

    return hit


def _count(bucket: Bucket, stream: str, meta: Meta, hit: _Hit) -> int:
    total = 0
    for file in meta.thanos.files:
        if not file.rel_path.startswith("chunks/"):
            continue
        key = keys.block(stream, meta.ulid, file.rel_path)
        with (
            closing(open_input(bucket, key, file.size_bytes or 0)) as source,
            decoding(f"block {meta.ulid}: {file.rel_path}"),
        ):
            fragment = ds.ParquetFileFormat().make_fragment(source)
            # A thread of Arrow's that still holds a file of Python's when the program ends would abort it.
            total += fragment.count_rows(
                filter=hit(fragment.physical_schema),
                use_threads=isinstance(source, pa.OSFile),
                fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=False),
            )
    return total
