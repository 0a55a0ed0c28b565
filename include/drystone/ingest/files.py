"""Ingest from files: which files an interval names, and the create-only plan of each.

Source: the design, "Ingest: from files" and "Visibility: source ids are deterministic". A file is known by its path and
the SHA-256 of its content; its plan fixes the planning time, so every later attempt gives the same source ids.
"""

from __future__ import annotations

import glob
import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from drystone import ulids
from drystone.block import keys
from drystone.block.chunks import Chunk
from drystone.bucket.protocol import Bucket
from drystone.errors import InputError, ObjectExistsError, ObjectMissingError, SourceChangedError, UsageError

_CODE = re.compile(r"%[-_0^#]?.")
_STEPS = (("MR", timedelta(minutes=1)), ("HIp", timedelta(hours=1)))
_SECONDS = "SsfTcXr"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    version: Literal[1] = 1

    def to_json(self) -> bytes:
        """Return the bytes of the object."""
        return self.model_dump_json(indent=1).encode()


class FilePlan(_Model):
    """The plan of one file: all that a retry needs. `planned_at` is in ms since the epoch."""

    stream: str
    path: str
    sha256: str
    size: int
    planned_at: int
    generation: int

    def source(self, chunk: Chunk) -> str:
        """Return the id of the source that is this file's rows in one time chunk."""
        parts = (self.stream, str(self.generation), self.path, self.sha256, chunk.granularity, str(chunk.start))
        return ulids.derive(self.planned_at, *parts)


class FileDone(_Model):
    """Says that every source of a file's plan was uploaded: by which run, when, and how many rows."""

    run: str
    time: int
    rows: int
    sources: int


@dataclass(frozen=True, slots=True)
class FileStamp:
    """By what a file is known not to have changed since it was planned, without reading it again."""

    inode: int
    size: int
    modified_ns: int

    @classmethod
    def of(cls, location: Path) -> FileStamp:
        """Return the stamp of a file; raise InputError if there is none."""
        try:
            found = location.stat()
        except OSError as error:
            raise InputError(f"{location}: {error.strerror}.", "Nothing of it was ingested.") from None
        return cls(found.st_ino, found.st_size, found.st_mtime_ns)

    def check(self, location: Path) -> None:
        """Raise SourceChangedError if the file is another one now, or has been written to."""
        if FileStamp.of(location) != self:
            raise SourceChangedError(f"{location} changed while it was read.", "Ingest files that are complete.")


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """A file to read, its plan, the plan's key without a suffix, and the stamp of the content that was planned."""

    location: Path
    plan: FilePlan
    key: str
    stamp: FileStamp

    @property
    def done_key(self) -> str:
        """The key of the object that says that this file is done."""
        return f"{self.key}.done"


def find_files(pattern: str, interval: tuple[datetime, datetime] | None, base: Path) -> list[Path]:
    """Return the files that a glob with strftime codes names, sorted, a relative one below `base`.

    Those are the files of every minute, hour, day, month or year, whichever is the finest in the pattern, that has a
    part in [start, end); `%%` stands for %. Raises UsageError if the pattern has codes and there is no interval, or has
    seconds in it.
    """
    codes = [code for code in _CODE.findall(pattern) if code != "%%"]
    if codes and interval is None:
        msg = f"the pattern {pattern} has date codes, and this run has no interval."
        raise UsageError(msg, "Give an interval, or a path without codes.")
    if seconds := [code for code in codes if code[-1] in _SECONDS]:
        raise UsageError(f"the pattern {pattern} has {seconds[0]} in it.", "The finest code is %M; put * for the rest.")
    texts = {moment.strftime(pattern) for moment in _moments(codes, interval)} if interval and codes else {pattern}
    found: set[str] = set()
    for text in texts:
        # Not Path.glob: an absolute pattern is what people write.
        found.update(glob.glob(text.replace("%%", "%"), root_dir=base, recursive=True))  # noqa: PTH207
    return sorted(path for name in found if (path := base / name).is_file())


def _moments(codes: list[str], interval: tuple[datetime, datetime]) -> Iterator[datetime]:
    start, end = (moment.astimezone(UTC) for moment in interval)
    step = next((step for letters, step in _STEPS if any(code[-1] in letters for code in codes)), timedelta(days=1))
    moment = start.replace(second=0, microsecond=0)
    if step > timedelta(minutes=1):
        moment = moment.replace(minute=0)
    if step > timedelta(hours=1):
        moment = moment.replace(hour=0)
    while moment < end:
        yield moment
        moment += step


def plan_file(bucket: Bucket, stream: str, generation: int, location: Path, base: Path, now: int) -> PlannedFile:
    """Return the file's plan, made now if it has none yet. Of several runs that plan at once, all get the same.

    The file's name in the plan is its path below `base`, if it lies there. Raises SourceChangedError if the file was
    planned before with other content, InputError if it cannot be read.
    """
    name = _name(location, base.resolve())
    stamp = FileStamp.of(location)
    key = keys.file_plans(stream, generation) + hashlib.sha256(name.encode()).hexdigest()[:32]
    size, digest = _digest(location)
    mine = FilePlan(stream=stream, path=name, sha256=digest, size=size, planned_at=now, generation=generation)
    plan = read_plan(bucket, f"{key}.json")
    if plan is None:
        try:
            bucket.create(f"{key}.json", mine.to_json())
            plan = mine
        except ObjectExistsError:
            plan = read_plan(bucket, f"{key}.json")
    if plan is None:
        # It is there and cannot be seen yet. Going on with a plan of our own would make other sources of the same rows.
        raise ObjectMissingError(f"{key}.json")
    if plan.sha256 != digest:
        msg = f"{name} was ingested with other content (SHA-256 {plan.sha256[:12]}…, now {digest[:12]}…)."
        raise SourceChangedError(msg, "Give new content a new name, or put the old content back.")
    stamp.check(location)
    return PlannedFile(location, plan, key, stamp)


def read_plan(bucket: Bucket, key: str) -> FilePlan | None:
    """Return the plan under `key`, or None if there is none; raise InputError if it cannot be read."""
    try:
        return FilePlan.model_validate_json(bucket.get(key))
    except ObjectMissingError:
        return None
    except ValidationError as error:
        raise InputError(f"ingest plan {key} cannot be read: {error.errors()[0]['msg']}.") from None


def is_done(bucket: Bucket, file: PlannedFile) -> bool:
    """Tell whether every source of the file was uploaded."""
    try:
        bucket.head(file.done_key)
    except ObjectMissingError:
        return False
    return True


def commit(bucket: Bucket, file: PlannedFile, done: FileDone) -> None:
    """Say that the file is done. Of several runs one says it; the others find it said."""
    try:
        bucket.create(file.done_key, done.to_json())
    except ObjectExistsError:
        return


def _name(location: Path, base: Path) -> str:
    location = location.resolve()
    return str(location.relative_to(base) if location.is_relative_to(base) else location)


def _digest(location: Path) -> tuple[int, str]:
    try:
        with location.open("rb") as file:
            return location.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{location}: {error.strerror}.", "Nothing of it was ingested.") from None
