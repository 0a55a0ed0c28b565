"""A plan's messages written into local files, one for each folder they belong to.

Source: the design, "Ingest: formats". Two passes: which folders there are, and where each begins; then the files, as
many at once as a process may well have open. So neither memory nor open files grow with the plan.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from drystone.errors import InvariantError
from drystone.ingest.export.reading import Messages
from drystone.ingest.export.records import ExportedFile, Shape
from drystone.ingest.formats.layout import Place
from drystone.ingest.formats.registry import open_writer
from drystone.ingest.formats.sequence_file import sync_marker

_OPEN = 64
"""Files that are written at once."""


@dataclass(frozen=True, slots=True)
class _Extent:
    """What lies in a folder: messages, first and last offset."""

    rows: int
    first: int
    last: int


def write_files(messages: Messages, shape: Shape, folder: Path) -> list[tuple[ExportedFile, Path]]:
    """Return a local file for each folder of the layout that has messages, by its number.

    Raises InputError for a message that the format cannot hold; InvariantError if one is read twice or not at all.
    """
    extents = _extents(messages, shape)
    numbers = sorted(extents)
    found: list[tuple[ExportedFile, Path]] = []
    for begin in range(0, len(numbers), _OPEN):
        window = numbers[begin : begin + _OPEN]
        temp = folder / f"merge-{begin}"
        temp.mkdir()
        paths = {number: folder / str(number) for number in window}
        keys = {number: _key(messages, shape, number, extents[number]) for number in window}
        rows = _write(messages, temp, shape, {number: (paths[number], keys[number]) for number in window})
        if rows != {number: extents[number].rows for number in window}:
            msg = f"{messages.plan}: its messages were not read alike twice."
            raise InvariantError(msg, "Nothing of it was uploaded; please report this.")
        found += [
            (_described(number, keys[number], extents[number], paths[number]), paths[number]) for number in window
        ]
    return found


def _extents(messages: Messages, shape: Shape) -> dict[int, _Extent]:
    found: dict[int, _Extent] = {}
    for batch in messages.positions():
        table = pa.table({"folder": shape.folders.numbers(batch), "offset": batch.column("offset")})
        grouped = table.group_by("folder").aggregate([("offset", "count"), ("offset", "min"), ("offset", "max")])
        for folder, rows, first, last in zip(*grouped.to_pydict().values(), strict=True):
            known = found.get(folder, _Extent(0, first, last))
            found[folder] = _Extent(known.rows + rows, min(known.first, first), max(known.last, last))
    return found


def _key(messages: Messages, shape: Shape, number: int, extent: _Extent) -> str:
    plan = messages.plan
    parts = shape.folders.parts(number)
    return Place(plan.topic, parts, plan.generation, plan.partition, extent.first, shape.extension).key(shape.prefix)


def _write(messages: Messages, temp: Path, shape: Shape, files: dict[int, tuple[Path, str]]) -> dict[int, int]:
    """Write the messages that belong into these folders, and return how many went into each."""
    plan = messages.plan
    rows = dict.fromkeys(files, 0)
    last = plan.start - 1
    with ExitStack() as stack:
        writers = {}
        for number, (path, key) in files.items():
            # Nobody who sends messages knows when they will be planned: no message can hold the marker.
            sync = sync_marker(key, str(plan.planned_at))
            writers[number] = open_writer(shape.format, shape.compression, path, sync)
            stack.callback(writers[number].close)
        for batch in messages.in_order(temp):
            last = _check_rising(messages, batch, last)
            numbers = shape.folders.numbers(batch)
            for number in pc.unique(numbers).to_pylist():
                if number in writers:
                    mine = batch.filter(pc.equal(numbers, number))
                    writers[number].write(mine)
                    rows[number] += mine.num_rows
    return rows


def _check_rising(messages: Messages, batch: pa.RecordBatch, last: int) -> int:
    """Return the batch's last offset; raise InvariantError if a message comes twice, or is not the plan's."""
    offsets = np.concatenate([[last], batch.column("offset").to_numpy()])
    if (np.diff(offsets) <= 0).any() or offsets[-1] >= messages.plan.end:
        msg = f"{messages.plan}: a message was read twice, or belongs to another plan."
        raise InvariantError(msg, "Nothing of it was uploaded; `drystone verify --deep` tells which block is wrong.")
    return int(offsets[-1])


def _described(number: int, key: str, extent: _Extent, path: Path) -> ExportedFile:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return ExportedFile(
        folder=number,
        key=key,
        rows=extent.rows,
        bytes=path.stat().st_size,
        sha256=digest,
        first_offset=extent.first,
        last_offset=extent.last,
    )
