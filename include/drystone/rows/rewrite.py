"""One rewrite: sorted inputs to one built block, with the proof that no row was lost, doubled or changed.

Source: the design, "Compaction: executing", invariants of every rewrite. Arrow only: no bucket, no Spark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import pyarrow as pa

from drystone.errors import InvariantError
from drystone.rows.checksum import ContentChecksum
from drystone.rows.drops import Drops, Tally, without
from drystone.rows.fan_in import MergePlan, plan_fan_in
from drystone.rows.key_range import within
from drystone.rows.keys import Key
from drystone.rows.merge import merge_sorted
from drystone.rows.pipeline import Ahead
from drystone.rows.reading import SortedFile, open_sorted
from drystone.rows.writer import MAX_CHUNK_BYTES, Built, ChunkWriter


@dataclass(frozen=True, slots=True)
class RewriteInput:
    """One block to read: its chunk files in order, what of it is dropped, and what its meta.json says.

    `row_groups`: which row groups to read of each file (default: all), for a key range. `rows` and `checksum`: as
    recorded, if they are to be compared. `sources`: all that the block may hold rows of; None: not checked.
    """

    name: str
    files: tuple[SortedFile, ...]
    drops: Drops = field(default_factory=Drops)
    row_groups: tuple[tuple[int, ...], ...] | None = None
    rows: int | None = None
    checksum: str | None = None
    sources: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class RewriteOutput:
    """Where and how the output is built. `schema`: plain types; each output has its own `folder` and `temp`."""

    folder: Path
    temp: Path
    schema: pa.Schema
    sort_key: tuple[str, ...]
    time_column: str
    row_group_rows: int = 131_072
    max_chunk_bytes: int = MAX_CHUNK_BYTES
    low: Key | None = None
    high: Key | None = None


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What was built, and what became of the rows: rows_in = built.rows + erased + retired + deduplicated.

    `checksum_in`: of the rows that were read; it adds up over the outputs of a group to that of the inputs.
    """

    built: Built
    rows_in: int
    rows_erased: int
    rows_retired: int
    rows_deduplicated: int
    checksum_in: str
    plan: MergePlan


def rewrite(inputs: Sequence[RewriteInput], output: RewriteOutput, *, memory: int, threads: int = 1) -> Rewritten:
    """Merge the inputs, less what they drop, into one block in `output.folder`; return it with all counts.

    `memory`: bytes that it may take beyond the interpreter's own, whatever the size of the inputs. `threads`: up to two
    are busy at once with more than one: one reads and merges, one writes.

    Raises InvariantError, naming what differs, if rows or checksums of what was read (as the inputs have recorded them,
    where they are read whole) are not those of what was written and dropped, if a source appears that no input has, or
    if an input is not sorted; InputError for columns that do not fit the schema. Nothing is to be uploaded then.
    """
    plan = _plan(inputs, output, memory)
    # Recorded checksums prove more, and for less: they cover what the reader did, and are there already.
    recorded = _is_whole(inputs, output) and all(each.checksum is not None for each in inputs)
    tallies = [Tally() for _ in inputs]
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(1)) if threads > 1 else None
        tables = merge_sorted(
            [
                without(_batches(each, output, plan), each.drops, tally, sum_input=not recorded)
                for each, tally in zip(inputs, tallies, strict=True)
            ],
            output.sort_key,
            names=[each.name for each in inputs],
            batch_rows=plan.batch_rows,
            out_rows=plan.out_rows,
            fan_in=plan.fan_in,
            temp=output.temp,
            pool=pool,
        )
        built = _write(stack.enter_context(Ahead(tables)) if threads > 1 else tables, output)
    total = _total(inputs, tallies, recorded=recorded)
    _check(inputs, total, built)
    if _is_whole(inputs, output):
        _check_rows(inputs, tallies)
    return Rewritten(built, total.rows_in, total.erased, total.retired, total.deduplicated, total.checksum_in.hex, plan)


def _plan(inputs: Sequence[RewriteInput], output: RewriteOutput, memory: int) -> MergePlan:
    files = [file for each in inputs for file in each.files]
    row_bytes = max((file.row_bytes for file in files), default=1)
    open_bytes = max((file.open_bytes for file in files), default=0)
    return plan_fan_in(len(inputs), row_bytes, open_bytes, memory, output.row_group_rows)


def _batches(each: RewriteInput, output: RewriteOutput, plan: MergePlan) -> Iterator[pa.RecordBatch]:
    groups = each.row_groups or (None,) * len(each.files)
    read = chain.from_iterable(
        open_sorted(file, output.schema, batch_rows=plan.batch_rows, row_groups=wanted)
        for file, wanted in zip(each.files, groups, strict=True)
    )
    return within(read, output.sort_key, output.low, output.high, each.name)


def _write(tables: Iterator[pa.Table], output: RewriteOutput) -> Built:
    writer = ChunkWriter(
        output.folder,
        output.schema,
        output.sort_key,
        output.time_column,
        output.row_group_rows,
        output.max_chunk_bytes,
    )
    for table in tables:
        writer.write(table)
    return writer.close()


def _is_whole(inputs: Sequence[RewriteInput], output: RewriteOutput) -> bool:
    return output.low is None and output.high is None and all(each.row_groups is None for each in inputs)


def _total(inputs: Sequence[RewriteInput], tallies: Sequence[Tally], *, recorded: bool) -> Tally:
    total = Tally()
    for each, tally in zip(inputs, tallies, strict=True):
        total.rows_in += tally.rows_in
        total.deduplicated += tally.deduplicated
        total.retired += tally.retired
        total.erased += tally.erased
        total.checksum_dropped += tally.checksum_dropped
        total.checksum_in += (
            ContentChecksum.from_hex(each.checksum, tally.rows_in)
            if recorded and each.checksum is not None
            else tally.checksum_in
        )
    return total


def _check(inputs: Sequence[RewriteInput], total: Tally, built: Built) -> None:
    names = ", ".join(each.name for each in inputs[:3]) + (" …" if len(inputs) > 3 else "")  # noqa: PLR2004 - as many as shown
    dropped = total.deduplicated + total.retired + total.erased
    if total.rows_in != built.rows + dropped:
        msg = f"rewrite of {names}: {total.rows_in} rows in, {built.rows} out and {dropped} dropped."
        raise InvariantError(msg, "Nothing was uploaded; please report this.")
    out = ContentChecksum.from_hex(built.checksum, built.rows) + total.checksum_dropped
    if out != total.checksum_in:
        msg = f"rewrite of {names}: the content checksum is {total.checksum_in.hex} in, {out.hex} out and dropped."
        raise InvariantError(msg, "Nothing was uploaded; verify the inputs.")
    if any(each.sources is None for each in inputs):
        return
    known = frozenset().union(*(each.sources or frozenset() for each in inputs))
    strange = sorted(built.sources - known)
    if strange:
        msg = f"rewrite of {names}: rows of source {strange[0]} came out, and no input has it ({len(strange)} such)."
        raise InvariantError(msg, "Nothing was uploaded; verify the inputs.")


def _check_rows(inputs: Sequence[RewriteInput], tallies: Sequence[Tally]) -> None:
    for each, tally in zip(inputs, tallies, strict=True):
        if each.rows is not None and each.rows != tally.rows_in:
            msg = f"{each.name} has {tally.rows_in} rows, and its meta.json says {each.rows}."
            raise InvariantError(msg, "Nothing was uploaded; verify the block.")
