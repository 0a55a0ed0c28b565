"""Planning files: each content of a path once, and what becomes of the contents that it had before.

Source: the design, "Ingest: from files". The contents of a path make a chain of create-only plans, numbered from 0. A
plan with `replaces` ends what was there before it: those sources are read no more once its rows are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from drystone import ulids
from drystone.block import keys
from drystone.bucket.protocol import Bucket
from drystone.config.ingest import OnChange
from drystone.errors import HeldError, InputError, ObjectExistsError, SourceChangedError
from drystone.ingest.files import (
    FileDone,
    FilePlan,
    FileSources,
    FileStamp,
    PlannedFile,
    is_done,
    read,
    read_there,
)
from drystone.timeline.gone import Gone


@dataclass(frozen=True, slots=True)
class FilePlanner:
    """Plans the files of a stream, named by their paths below `base`.

    `on_change`: what becomes of new content under a known path. `gone`: tells what is retired and replaced now, asked
    only where something is to be replaced.
    """

    bucket: Bucket
    stream: str
    generation: int
    base: Path
    on_change: OnChange
    gone: Callable[[], Gone]

    def plan(self, location: Path, now: int) -> PlannedFile:
        """Return the plan of the file's content, made now if it has none yet; who plans at once gets the same.

        Raises SourceChangedError for content that the path may not get, or not before its last one is done; HeldError
        if another run planned other content at the same moment, or if this machine's clock is behind; InputError if the
        file cannot be read; ObjectMissingError if what another run has just written cannot be seen yet.
        """
        name = _name(location, self.base.resolve())
        stamp = FileStamp.of(location)
        first = keys.file_plans(self.stream, self.generation) + hashlib.sha256(name.encode()).hexdigest()[:32]
        size, digest = _digest(location)
        chain = self._chain(first, location, stamp)
        found = next((file for file in reversed(self._open_to(chain)) if self._is_of(file, digest)), None)
        if found is None:
            key = _key(first, len(chain))
            mine = FilePlan(
                stream=self.stream,
                path=name,
                sha256=digest,
                size=size,
                planned_at=now,
                generation=self.generation,
                number=len(chain),
                replaces=self._replaced(chain, digest, now),
                listed=self.on_change != "error",
            )
            # Another run may have seen newer content: what is not there any more must not come after it.
            stamp.check(location)
            found = PlannedFile(location, self._create(key, mine), key, stamp)
        stamp.check(location)
        return found

    def _chain(self, first: str, location: Path, stamp: FileStamp) -> list[PlannedFile]:
        chain: list[PlannedFile] = []
        for number in count():
            key = _key(first, number)
            plan = read(self.bucket, f"{key}.json", FilePlan)
            if plan is None:
                break
            chain.append(PlannedFile(location, plan, key, stamp))
        return chain

    def _create(self, key: str, mine: FilePlan) -> FilePlan:
        try:
            self.bucket.create(f"{key}.json", mine.to_json())
        except ObjectExistsError:
            found = read_there(self.bucket, f"{key}.json", FilePlan)
            if found.sha256 == mine.sha256:
                return found
            if self.on_change == "error":
                raise _refusal(found, mine.sha256) from None
            msg = f"another run planned other content of {mine.path} at the same moment."
            raise HeldError(msg, "Try again.") from None
        return mine

    def _open_to(self, chain: Sequence[PlannedFile]) -> Sequence[PlannedFile]:
        """Return the contents that are ingested already if they are met again: of those that are read, the newest.

        Whoever appends, or stops, knows all of them; what replaces is met again only as long as it is the last.
        """
        return chain[-1:] if self.on_change == "replace" else _live(chain)

    def _is_of(self, file: PlannedFile, digest: str) -> bool:
        return file.plan.sha256 == digest and not self._is_given_up(file)

    def _is_given_up(self, file: PlannedFile) -> bool:
        if not file.plan.listed or file.plan.replaces:
            return False
        found = read(self.bucket, file.sources_key, FileSources)
        return found is not None and found.ids is None

    def _replaced(self, chain: Sequence[PlannedFile], digest: str, now: int) -> tuple[str, ...] | None:
        """Return what new content of the path replaces; None if it is read beside what is there.

        What is retired already is read nowhere, and what replaced it would be retired with it.
        """
        if not chain:
            return None
        last = chain[-1].plan
        if self.on_change == "error":
            raise _refusal(last, digest)
        if self.on_change == "append":
            # What was given up has no source.
            if not is_done(self.bucket, chain[-1]) and self._sources(chain[-1]):
                raise _unfinished(last.path)
            return None
        roots = {root for file in _live(chain) for root in self._sources(file)}
        gone = self.gone()
        roots -= gone.retired
        # Of all that replace a source the newest counts, by the time in its id.
        newest = max((gone.replaced.get(root, root) for root in roots), default="")
        if last.planned_at >= now or (newest and ulids.time_of(newest) >= now):
            msg = f"what {last.path} had before was planned or replaced a moment later than now, by this clock."
            raise HeldError(msg, "Try again; if it goes on, set this machine's clock.")
        return tuple(sorted(roots))

    def _sources(self, file: PlannedFile) -> tuple[str, ...]:
        """Return the sources of a plan, all that any run may still upload, and what they replace.

        If none are written down yet, the plan is given up for good. Raises SourceChangedError where nobody can tell.
        """
        plan = file.plan
        if plan.replaces:
            return (*plan.replaces, plan.substitute)
        if plan.listed:
            try:
                self.bucket.create(file.sources_key, FileSources(ids=None).to_json())
            except ObjectExistsError:
                return read_there(self.bucket, file.sources_key, FileSources).ids or ()
            return ()
        done = read(self.bucket, file.done_key, FileDone)
        if done is None or done.ids is None:
            raise _unfinished(plan.path)
        return done.ids


def _live(chain: Sequence[PlannedFile]) -> Sequence[PlannedFile]:
    """Return the contents that are read: the last one that replaced what was there, and all after it."""
    starts = [number for number, file in enumerate(chain) if file.plan.replaces is not None]
    return chain[starts[-1] :] if starts else chain


def _key(first: str, number: int) -> str:
    return f"{first}.{number}" if number else first


def _refusal(plan: FilePlan, digest: str) -> SourceChangedError:
    msg = f"{plan.path} was ingested with other content (SHA-256 {plan.sha256[:12]}…, now {digest[:12]}…)."
    return SourceChangedError(
        msg, "Give new content a new name, put the old content back, or set ingest.on_change to replace or append."
    )


def _unfinished(path: str) -> SourceChangedError:
    msg = f"{path} got other content before all of its last one was ingested."
    return SourceChangedError(msg, "Put the last content back and ingest it first, or give the new one a new name.")


def _name(location: Path, base: Path) -> str:
    location = location.resolve()
    return str(location.relative_to(base) if location.is_relative_to(base) else location)


def _digest(location: Path) -> tuple[int, str]:
    try:
        with location.open("rb") as file:
            return location.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{location}: {error.strerror}.", "Nothing of it was ingested.") from None
