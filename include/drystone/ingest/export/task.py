"""What a task does for one ingest plan: local files, the export's plan, the files in the bucket, and that all is there.

Source: the design, "Ingest: formats". Every step may be done again, by another task at the same time too: names follow
from the messages, or from the plan that is there, and nothing that is there is ever written over.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.errors import DrystoneError, InvariantError, ObjectExistsError, ObjectMissingError
from drystone.ingest.export.files import write_files
from drystone.ingest.export.periods import note_open
from drystone.ingest.export.reading import Messages
from drystone.ingest.export.records import ExportDone, ExportedFile, ExportPlan, Shape, plan_key, read
from drystone.ingest.kafka.plans import Plan

_STEP = 8 << 20
"""Bytes that are read at a time of a file that is there already."""


@dataclass(frozen=True, slots=True)
class ExportTask:
    """One ingest plan's messages, to be written in this shape. `sources`, `edits`: see `ExportPlan`."""

    messages: Messages
    shape: Shape
    sources: tuple[str, ...]
    edits: str


@dataclass(frozen=True, slots=True)
class Exported:
    """What became of an ingest plan: its files and how many of them are new, or the error that kept it from any."""

    plan: Plan
    shape: Shape
    files: tuple[ExportedFile, ...] = ()
    new: int = 0
    error: str = ""
    retryable: bool = False


@dataclass(frozen=True, slots=True)
class Exporter:
    """Carries out tasks; can be sent to other processes. `run`: the run's name."""

    run: str
    clock: Clock

    def __call__(self, task: ExportTask) -> Exported:
        """Do it; what is wrong with one plan is told and not raised, so that the others go on."""
        plan = task.messages.plan
        try:
            return self._export(task)
        except DrystoneError as error:
            return Exported(plan, task.shape, error=f"{plan}: {error}", retryable=error.retryable)

    def _export(self, task: ExportTask) -> Exported:
        bucket, plan = task.messages.bucket, task.messages.plan
        key = plan_key(plan, task.shape.prefix)
        known = read(bucket, f"{key}.json", ExportPlan)
        shape = task.shape if known is None else known.shape
        with tempfile.TemporaryDirectory(prefix="drystone-") as name:
            written = write_files(task.messages, shape, Path(name))
            mine = _plan(task, shape, [file for file, _ in written])
            if known is None:
                known = self._settle(bucket, f"{key}.json", mine)
            if known.shape != shape:
                return self._export(task)  # Another run, of another configuration, planned it meanwhile.
            note_open(bucket, plan, shape, (file.folder for file in mine.files))
            paths = {file.folder: path for file, path in written}
            settled = [_upload(bucket, old, file, paths[file.folder]) for old, file in _matched(plan, known, mine)]
        there = [file for file in known.files if file.folder not in paths and _is_there(bucket, file.key)]
        files = tuple(sorted([*(file for file, _ in settled), *there], key=lambda file: file.folder))
        done = ExportDone(run=self.run, time=self.clock(), files=files)
        with contextlib.suppress(ObjectExistsError):
            bucket.create(f"{key}.done", done.to_json())
        return Exported(plan, shape, files, sum(new for _, new in settled))

    def _settle(self, bucket: Bucket, key: str, mine: ExportPlan) -> ExportPlan:
        """Write down what the messages come to, and return what holds: another task may have been faster."""
        try:
            bucket.create(key, mine.to_json())
        except ObjectExistsError:
            there = read(bucket, key, ExportPlan)
            if there is None:
                raise ObjectMissingError(key) from None
            return there
        return mine


def _plan(task: ExportTask, shape: Shape, files: Sequence[ExportedFile]) -> ExportPlan:
    plan = task.messages.plan
    return ExportPlan(
        shape=shape,
        topic=plan.topic,
        topic_id=plan.topic_id,
        partition=plan.partition,
        start=plan.start,
        end=plan.end,
        sources=task.sources,
        edits=task.edits,
        files=tuple(files),
    )


def _matched(plan: Plan, known: ExportPlan, mine: ExportPlan) -> list[tuple[ExportedFile, ExportedFile]]:
    """Return each of my files, under the name that was planned for it, after the one that was planned.

    Only an edit or a repair since then may have made another one of it. Raises InvariantError for anything else.
    """
    before = {file.folder: file for file in known.files}
    same = (known.sources, known.edits) == (mine.sources, mine.edits)
    if (same and known.files != mine.files) or not before.keys() >= {file.folder for file in mine.files}:
        msg = f"{plan} was planned to be exported as other files than it comes to now."
        raise InvariantError(msg, "Nothing more of it was uploaded; please report this.")
    return [(before[file.folder], file.model_copy(update={"key": before[file.folder].key})) for file in mine.files]


def _upload(bucket: Bucket, planned: ExportedFile, mine: ExportedFile, path: Path) -> tuple[ExportedFile, bool]:
    """Upload a file, unless it is there; return which of the two is there, and whether it is new."""
    try:
        bucket.upload(mine.key, path)
    except ObjectExistsError:
        found = _digest(bucket, mine.key)
        for each in (mine, planned):
            if each.sha256 == found:
                return each, False
        msg = f"{mine.key} is there, and is not what this export writes."
        way_out = "Somebody else wrote it: remove it, or give the export a prefix of its own."
        raise InvariantError(msg, way_out) from None
    return mine, True


def _digest(bucket: Bucket, key: str) -> str:
    digest, size = hashlib.sha256(), bucket.head(key).size
    for start in range(0, size, _STEP):
        digest.update(bucket.get_range(key, start, _STEP))
    return digest.hexdigest()


def _is_there(bucket: Bucket, key: str) -> bool:
    try:
        bucket.head(key)
    except ObjectMissingError:
        return False
    return True
