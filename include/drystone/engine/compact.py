"""Executing a merge: one task per output block, each built on local disk and uploaded by whoever runs it.

Source: the design, "Compaction: executing".
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from drystone.block import keys
from drystone.block.meta import INDEX_FILE, Group, Rewrite
from drystone.block.schema import Schema
from drystone.bucket.files import open_input
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.config.model import StreamConfig
from drystone.engine.recipe import Input, Recipe
from drystone.engine.record import keep_schema, read_schema
from drystone.engine.upload import Origin, new_extension, upload_block
from drystone.errors import DrystoneError
from drystone.rows.arrow_schema import to_arrow, unify
from drystone.rows.checksum import ContentChecksum
from drystone.rows.drops import Drops
from drystone.rows.expressions import dropped_by
from drystone.rows.index import read_index
from drystone.rows.keys import Key
from drystone.rows.reading import SortedFile, describe
from drystone.rows.rewrite import RewriteInput, RewriteOutput, rewrite
from drystone.rows.split import in_range, split_keys
from drystone.rows.writer import Built


@dataclass(frozen=True, slots=True)
class OutputTask:
    """All that is needed to build one output of a merge, in any process: the rows with sort keys in [low, high)."""

    bucket: Bucket
    stream: str
    config: StreamConfig
    recipe: Recipe
    group: Group
    schema: Schema
    fingerprint: str
    low: Key | None
    high: Key | None
    run: str
    stamp: Mapping[str, Any]
    clock: Clock

    @property
    def bytes(self) -> int:
        """About how much it reads."""
        return self.recipe.merge.bytes // self.group.size


@dataclass(frozen=True, slots=True)
class Output:
    """What became of a task: the block it uploaded, or why it failed."""

    key: str
    ulid: str = ""
    error: str = ""
    retryable: bool = False
    rows_in: int = 0
    rows: int = 0
    rows_erased: int = 0
    rows_retired: int = 0
    rows_deduplicated: int = 0
    bytes: int = 0
    checksum_in: str = ""


@dataclass
class Preparation:
    """Turns recipes into tasks; reads each schema once."""

    bucket: Bucket
    stream: str
    config: StreamConfig
    run: str
    stamp: Mapping[str, Any]
    clock: Clock
    _schemas: dict[str, Schema] = field(default_factory=dict)

    def tasks(self, recipe: Recipe, group_id: str) -> list[OutputTask]:
        """Return one task per output, under a group id of this execution.

        Raises InputError if the inputs' columns do not fit together, UnreadableBlockError or BucketError if an index or
        a schema cannot be read.
        """
        extensions = (each.meta.drystone for each in recipe.inputs)
        schema = unify(self._schema(each.schema_fingerprint) for each in extensions if each is not None)
        fingerprint = keep_schema(self.bucket, self.stream, schema)
        size = recipe.merge.outputs
        bounds: list[Key | None] = [None, *self._cuts(recipe, size), None]
        size = len(bounds) - 1
        return [
            OutputTask(
                bucket=self.bucket,
                stream=self.stream,
                config=self.config,
                recipe=recipe,
                group=Group(id=group_id, size=size, index=index),
                schema=schema,
                fingerprint=fingerprint,
                low=bounds[index],
                high=bounds[index + 1],
                run=self.run,
                stamp=self.stamp,
                clock=self.clock,
            )
            for index in range(size)
        ]

    def _cuts(self, recipe: Recipe, outputs: int) -> list[Key]:
        """Return the keys at which the rows are cut into outputs, as the inputs' index files tell."""
        if outputs == 1:
            return []
        entries = []
        for each in recipe.inputs:
            entries += read_index(self.bucket.get(keys.block(self.stream, each.ulid, INDEX_FILE)))
        return split_keys(entries, outputs)

    def _schema(self, fingerprint: str) -> Schema:
        if fingerprint not in self._schemas:
            self._schemas[fingerprint] = read_schema(self.bucket, self.stream, fingerprint)
        return self._schemas[fingerprint]


def build_output(task: OutputTask) -> Output:
    """Build and upload one output; never raises for what is wrong with this merge, so that others go on."""
    try:
        with tempfile.TemporaryDirectory(prefix="drystone-") as folder:
            return _build(task, Path(folder))
    except Exception as error:  # noqa: BLE001 - the boundary: whatever happened to one merge is its result
        text, retryable = failure_of(error)
        return Output(task.recipe.merge.key, error=text, retryable=retryable)


def failure_of(error: Exception) -> tuple[str, bool]:
    """Return what to say of an error that ended one piece of work, and whether another attempt may help."""
    if isinstance(error, DrystoneError):
        return str(error), error.retryable
    traceback.print_exception(error)
    # An error of the operating system has a number; without one it is Arrow's, of what it was given to read.
    damaged = isinstance(error, pa.ArrowInvalid) or (isinstance(error, OSError) and error.errno is None)
    return " ".join(f"{type(error).__name__}: {error}".split()), not damaged


def _build(task: OutputTask, folder: Path) -> Output:
    recipe, rules = task.recipe, task.config.compaction
    schema = to_arrow(task.schema, with_source=True)
    temp = folder / "temp"
    temp.mkdir()
    target = RewriteOutput(
        folder=folder / "block",
        temp=temp,
        schema=schema,
        sort_key=task.config.sort_key,
        time_column=task.config.time_column,
        row_group_rows=rules.row_group_rows,
        low=task.low,
        high=task.high,
    )
    target.folder.mkdir()
    inputs = [_input(task, each, schema) for each in recipe.inputs]
    done = rewrite(inputs, target, memory=rules.memory_per_task)
    counts = Rewrite(
        rows_in=done.rows_in,
        rows_erased=done.rows_erased,
        rows_retired=done.rows_retired,
        rows_deduplicated=done.rows_deduplicated,
    )
    origin = _origin(task, done.built, counts)
    meta = upload_block(task.bucket, done.built, origin, task.config.times.upload_timeout, task.clock)
    return Output(
        key=recipe.merge.key,
        ulid=meta.ulid,
        rows=done.built.rows,
        bytes=done.built.size,
        checksum_in=done.checksum_in,
        **counts.model_dump(),
    )


def _input(task: OutputTask, each: Input, schema: pa.Schema) -> RewriteInput:
    files = [file for file in each.meta.thanos.files if file.rel_path.startswith("chunks/")]
    opened = tuple(_describe(task, each.ulid, file.rel_path, file.size_bytes or 0) for file in files)
    row_groups = None
    if task.group.size > 1:
        wanted: dict[str, list[int]] = {}
        for entry in read_index(task.bucket.get(keys.block(task.stream, each.ulid, INDEX_FILE))):
            if in_range(entry, task.low, task.high):
                wanted.setdefault(entry.file, []).append(entry.ordinal)
        row_groups = tuple(tuple(wanted.get(file.rel_path, ())) for file in files)
    extension = each.meta.drystone
    return RewriteInput(
        name=f"block {each.ulid}",
        files=opened,
        drops=Drops(
            owned_elsewhere=each.duplicates,
            retired=task.recipe.gone,
            erased=tuple(dropped_by(edit, task.config.time_column, schema) for edit in each.edits),
        ),
        row_groups=row_groups,
        rows=each.meta.stats.num_samples,
        checksum=extension.checksum if extension is not None else None,
        sources=task.recipe.sources,
    )


def _describe(task: OutputTask, ulid: str, name: str, size: int) -> SortedFile:
    key = keys.block(task.stream, ulid, name)
    return describe(f"block {ulid}, {name}", lambda: open_input(task.bucket, key, size))


def _origin(task: OutputTask, built: Built, counts: Rewrite) -> Origin:
    recipe = task.recipe
    extension = new_extension(
        stream=task.stream,
        schema_fingerprint=task.fingerprint,
        time_chunk=recipe.chunk,
        time_column=task.config.time_column,
        sort_key=task.config.sort_key,
        # A group of one needs no group: the block stands for itself.
        group=task.group if task.group.size > 1 else None,
        generation=recipe.generation,
        rewrite=recipe.rewrite,
        checksum=built.checksum,
        edits=tuple(sorted(recipe.edits)),
        retires=tuple(sorted(recipe.retires, key=lambda pair: (pair.root, pair.by))),
        rewritten=counts,
        operation=recipe.merge.key,
        **task.stamp,
    )
    return Origin(
        stream=task.stream,
        verb="repair.rewrite" if recipe.merge.kind == "rewrite" else f"compact.{recipe.merge.kind}",
        labels=task.config.labels,
        extension=extension,
        sources=recipe.sources,
        level=recipe.level,
        min_time=recipe.min_time,
        max_time=recipe.max_time,
        parents=recipe.parents,
    )


def check_whole(recipe: Recipe, outputs: Sequence[Output]) -> str:
    """Return "" if the outputs together took in every row of the inputs exactly once, else what does not add up."""
    rows = sum(output.rows_in for output in outputs)
    if rows != recipe.rows:
        return f"the outputs took in {rows:,} rows, and the inputs have {recipe.rows:,}"
    found, recorded = ContentChecksum(), ContentChecksum()
    for output in outputs:
        found += ContentChecksum.from_hex(output.checksum_in, output.rows_in)
    for each in recipe.inputs:
        if each.meta.drystone is not None:
            recorded += ContentChecksum.from_hex(each.meta.drystone.checksum, each.meta.stats.num_samples)
    return "" if found == recorded else f"the rows taken in have checksum {found.hex}, the inputs say {recorded.hex}"
