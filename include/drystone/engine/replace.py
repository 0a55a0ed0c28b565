"""Replacing sources: their rows as they are in a group now, less what a predicate selects, in new blocks of their own.

Source: the design, "Visibility: replacing data": one replacement group for each root source. Until it is ready nothing
changes; from then on the root is read nowhere else.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from drystone.block import keys
from drystone.block.chunks import covering_chunk
from drystone.block.meta import Parent, Replacement, Rewrite, TimeChunk
from drystone.block.schema import Schema
from drystone.bucket.files import open_input
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.engine.compact import failure_of
from drystone.engine.recipe import Input
from drystone.engine.upload import Origin, new_extension, upload_block
from drystone.errors import InputError
from drystone.plan.model import Replace, Swap
from drystone.rows.arrow_schema import to_arrow
from drystone.rows.drops import Drops
from drystone.rows.expressions import dropped_by, selected_by
from drystone.rows.reading import SortedFile, describe
from drystone.rows.replacing import Replaced, Shape, replace_sources
from drystone.rows.rewrite import RewriteInput


@dataclass(frozen=True, slots=True)
class ReplaceTask:
    """All that is needed to carry out one action in any process. Times are ms since the epoch."""

    bucket: Bucket
    stream: str
    config: StreamConfig
    action: Replace
    inputs: tuple[Input, ...]
    schema: Schema
    fingerprint: str
    evidence: frozenset[Replacement]
    edits: frozenset[str]
    generation: int
    level: int
    min_time: int
    max_time: int
    stamp: Mapping[str, Any]
    clock: Clock


@dataclass(frozen=True, slots=True)
class ReplaceOutput:
    """What became of a task: the blocks that it uploaded, each with the swap that it is of, and why it failed."""

    key: str
    blocks: tuple[tuple[str, Swap], ...] = ()
    rows: int = 0
    rows_dropped: int = 0
    error: str = ""
    retryable: bool = False


def build_replacements(task: ReplaceTask) -> ReplaceOutput:
    """Build all of an action's blocks, then upload them; never raises for what is wrong with this action."""
    try:
        with tempfile.TemporaryDirectory(prefix="drystone-") as folder:
            return _build(task, Path(folder))
    except Exception as error:  # noqa: BLE001 - the boundary: whatever happened to one action is its result
        text, retryable = failure_of(error)
        return ReplaceOutput(task.action.key, error=text, retryable=retryable)


def _build(task: ReplaceTask, folder: Path) -> ReplaceOutput:
    rules, schema = task.config.compaction, to_arrow(task.schema, with_source=True)
    shape = Shape(schema, task.config.sort_key, task.config.time_column, rules.row_group_rows, rules.memory_per_task)
    inputs = [
        RewriteInput(
            name=f"block {each.ulid}",
            files=_files(task, each),
            rows=each.meta.stats.num_samples,
            checksum=each.meta.drystone.checksum if each.meta.drystone is not None else None,
        )
        for each in task.inputs
    ]
    pending = task.inputs[0].edits if task.inputs else ()
    erased = [dropped_by(edit, task.config.time_column, schema) for edit in pending]
    drops = Drops(erased=(*erased, selected_by(task.action.where, schema)))
    built = replace_sources(inputs, [(each.root, each.by) for each in task.action.swaps], drops, folder, shape)
    blocks: list[tuple[str, Swap]] = []
    text, retryable = "", False
    try:
        for swap in task.action.swaps:
            origin = _origin(task, swap, built[swap.root])
            deadline = task.config.times.upload_timeout
            meta = upload_block(task.bucket, built[swap.root].built, origin, deadline, task.clock)
            blocks.append((meta.ulid, swap))
    except Exception as error:  # noqa: BLE001 - each source is replaced by itself: what is uploaded is told and stays
        text, retryable = failure_of(error)
    done = [built[swap.root] for _, swap in blocks]
    return ReplaceOutput(
        task.action.key,
        tuple(blocks),
        rows=sum(each.built.rows for each in done),
        rows_dropped=sum(each.rows_dropped for each in done),
        error=text,
        retryable=retryable,
    )


def _files(task: ReplaceTask, each: Input) -> tuple[SortedFile, ...]:
    def described(name: str, size: int) -> SortedFile:
        key = keys.block(task.stream, each.ulid, name)
        return describe(f"block {each.ulid}, {name}", lambda: open_input(task.bucket, key, size))

    files = (file for file in each.meta.thanos.files if file.rel_path.startswith("chunks/"))
    return tuple(described(file.rel_path, file.size_bytes or 0) for file in files)


def _origin(task: ReplaceTask, swap: Swap, done: Replaced) -> Origin:
    built = done.built
    low, high = built.time_range((task.min_time, task.max_time))
    chunk = covering_chunk(low, max(high, low + 1), task.config.granularity.ingest)
    if chunk is None:
        raise InputError(f"source {swap.root}: no single time chunk holds its rows.", "Nothing was uploaded.")
    retires = {Replacement(root=swap.root, by=swap.by), *task.evidence}
    extension = new_extension(
        stream=task.stream,
        schema_fingerprint=task.fingerprint,
        time_chunk=TimeChunk(start=chunk.start, end=chunk.end, granularity=chunk.granularity),
        time_column=task.config.time_column,
        sort_key=task.config.sort_key,
        generation=task.generation,
        checksum=built.checksum,
        edits=tuple(sorted(task.edits)),
        retires=tuple(sorted(retires, key=lambda pair: (pair.root, pair.by))),
        rewritten=Rewrite(rows_in=done.rows_in, rows_erased=done.rows_dropped),
        operation=task.action.key,
        **task.stamp,
    )
    return Origin(
        stream=task.stream,
        verb="repair.drop-rows",
        labels=task.config.labels,
        extension=extension,
        sources=frozenset({swap.by}),
        level=task.level,
        min_time=low,
        max_time=high,
        parents=tuple(
            Parent(ulid=each.ulid, min_time=each.meta.min_time, max_time=each.meta.max_time) for each in task.inputs
        ),
    )
