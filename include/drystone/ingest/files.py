"""Ingest from files: which files an interval names, and what is kept of each: its plans, and what became of them.

Source: the design, "Ingest: from files" and "Visibility: source ids are deterministic". A file is known by its path and
the SHA-256 of its content; its plan fixes the planning time, so every later attempt gives the same source ids.
"""

from __future__ import annotations

import glob
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from drystone import ulids
from drystone.block.chunks import Chunk
from drystone.block.meta import Replacement
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
    """The plan of one content of a file: all that a retry needs. `planned_at` is in ms since the epoch.

    `number`: how many contents were planned under the path before. `replaces`: the sources in whose place this content
    is read; None if it is read beside all others. `listed`: its sources are written down before any of them is
    uploaded, so that whoever replaces it knows them all, also those that a run still uploads which was taken for dead.
    """

    stream: str
    path: str
    sha256: str
    size: int
    planned_at: int
    generation: int
    number: int = 0
    replaces: tuple[str, ...] | None = None
    listed: bool = False

    def source(self, chunk: Chunk) -> str:
        """Return the id of the source that is this content's rows in one time chunk; all of them, if it replaces."""
        if self.replaces:
            return self.substitute
        more = (str(self.number),) if self.number else ()
        parts = (self.stream, str(self.generation), self.path, self.sha256, chunk.granularity, str(chunk.start))
        return ulids.derive(self.planned_at, *parts, *more)

    @property
    def substitute(self) -> str:
        """The source of all rows of a content that replaces something."""
        return self._id("replace", self.planned_at)

    @property
    def root(self) -> str:
        """The source, of no rows, that stands for what is replaced where nothing of it was ever uploaded."""
        return self._id("root", self.planned_at - 1)

    def retires(self, *, with_root: bool = False) -> tuple[Replacement, ...]:
        """Return which sources are read no more once the rows of this content are."""
        roots = sorted(self.replaces or ())
        if not roots:
            return ()
        if with_root:
            roots.append(self.root)
        return tuple(Replacement(root=root, by=self.substitute) for root in roots)

    def _id(self, what: str, time: int) -> str:
        return ulids.derive(time, what, self.stream, str(self.generation), self.path, self.sha256, str(self.number))


class FileSources(_Model):
    """The sources of a plan, written down once, before any of them is uploaded; None: the plan is given up."""

    ids: tuple[str, ...] | None


class FileDone(_Model):
    """Says that every source of a file's plan was uploaded: by which run, when, how many rows, and which sources."""

    run: str
    time: int
    rows: int
    sources: int
    ids: tuple[str, ...] | None = None


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

    @property
    def sources_key(self) -> str:
        """The key of the object that lists the plan's sources."""
        return f"{self.key}.sources"


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


_Kept = TypeVar("_Kept", FilePlan, FileSources, FileDone)


def read(bucket: Bucket, key: str, model: type[_Kept]) -> _Kept | None:
    """Return what is kept of a file under `key`, or None if nothing is; raise InputError if it cannot be read."""
    try:
        return model.model_validate_json(bucket.get(key))
    except ObjectMissingError:
        return None
    except ValidationError as error:
        raise InputError(f"ingest plan {key} cannot be read: {error.errors()[0]['msg']}.") from None


def read_there(bucket: Bucket, key: str, model: type[_Kept]) -> _Kept:
    """Return what somebody has created under `key`; raise ObjectMissingError if it cannot be seen yet.

    Going on with what one wanted to write there oneself would make other sources of the same rows.
    """
    found = read(bucket, key, model)
    if found is None:
        raise ObjectMissingError(key)
    return found


def list_sources(bucket: Bucket, file: PlannedFile, ids: Iterable[str]) -> None:
    """Write down the sources of a plan, once for all runs; nothing of it may be uploaded before.

    Raises SourceChangedError if another run gave the plan up, InputError if the rows lay in other sources before.
    """
    mine = FileSources(ids=tuple(sorted(ids)))
    try:
        bucket.create(file.sources_key, mine.to_json())
    except ObjectExistsError:
        found = read_there(bucket, file.sources_key, FileSources)
        if found.ids is None:
            msg = f"{file.plan.path} got other content, and this one was given up."
            raise SourceChangedError(msg, "Ingest files that are complete.") from None
        if found != mine:
            msg = f"the rows of {file.plan.path} lie in other time chunks than when its ingest began."
            raise InputError(msg, "Put `derive` and `granularity` back until it is done.") from None


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
