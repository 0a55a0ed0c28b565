"""Buckets in memory that break their word, each in one way, as some stores do; and one that lags."""
# ruff: noqa: D102, ARG002 -- the class says what is spoilt

from __future__ import annotations

import time
import unicodedata
from collections.abc import Iterable, Iterator
from pathlib import Path

from drystone.bucket import MemoryBucket, ObjectInfo
from drystone.errors import BucketError, ConfigError, ObjectExistsError


class Planted(MemoryBucket):
    """A bucket in memory that its subclasses spoil; its copies are as spoilt."""

    def __reduce__(self) -> tuple[object, ...]:
        """Copy what it is, too."""
        return type(self), (self._name,)


class NoConditions(Planted):
    """Ignores the condition of a create-only write, as some self-hosted stores do."""

    def create(self, key: str, data: bytes) -> None:
        self.put(key, data)


class LooksFirst(Planted):
    """Looks whether a key is free, and writes a moment later."""

    def create(self, key: str, data: bytes) -> None:
        if any(self.list(key)):
            raise ObjectExistsError(key)
        time.sleep(0.001)
        self.put(key, data)


class LastWriterWins(Planted):
    """Tells one writer that it has won, and keeps what another one wrote."""

    def create(self, key: str, data: bytes) -> None:
        try:
            super().create(key, data)
        except ObjectExistsError:
            if "taken" not in key:
                self.put(key, data)
            raise


class NeverFree(Planted):
    """Keeps the key of a deleted object taken."""

    seen: set[str] = set()  # noqa: RUF012 - shared by all copies

    def create(self, key: str, data: bytes) -> None:
        if key in self.seen:
            raise ObjectExistsError(key)
        super().create(key, data)

    def put(self, key: str, data: bytes) -> None:
        self.seen.add(key)
        super().put(key, data)


class UploadReplaces(Planted):
    """Large files take the place of what is there."""

    def upload(self, key: str, path: Path) -> None:
        self.put(key, path.read_bytes())


class CutUploads(Planted):
    """Loses the last part of large files."""

    def upload(self, key: str, path: Path) -> None:
        self.create(key, path.read_bytes()[: 16 << 20])


class OtherListing(Planted):
    """Changes what a listing shows."""

    def change(self, found: list[ObjectInfo], prefix: str, start_after: str) -> list[ObjectInfo]:
        raise NotImplementedError

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        yield from self.change([*super().list(prefix, start_after)], prefix, start_after)


class SortsLikeUtf16(OtherListing):
    """Sorts keys as Java and JavaScript sort text."""

    def change(self, found: list[ObjectInfo], prefix: str, start_after: str) -> list[ObjectInfo]:
        return sorted(found, key=lambda info: info.key.encode("utf-16-be"))


class OneForm(Planted):
    """Takes names that look alike for one, as some file systems do."""

    def put(self, key: str, data: bytes) -> None:
        super().put(unicodedata.normalize("NFC", key), data)

    def get(self, key: str) -> bytes:
        return super().get(unicodedata.normalize("NFC", key))


class SortsByFolder(OtherListing):
    """Sorts as a walk through folders does: `a/x` before `a-`."""

    def change(self, found: list[ObjectInfo], prefix: str, start_after: str) -> list[ObjectInfo]:
        return sorted(found, key=lambda info: info.key.split("/"))


class FoldersOnly(OtherListing):
    """Takes a prefix for a folder."""

    def change(self, found: list[ObjectInfo], prefix: str, start_after: str) -> list[ObjectInfo]:
        return [info for info in found if prefix.endswith("/") or info.key[len(prefix) :][:1] in {"", "/"}]


class StartsAt(Planted):
    """Shows the key to start after, too."""

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        yield from (info for info in super().list(prefix) if info.key >= start_after)


class LosesAtThePage(OtherListing):
    """Loses the first key of each further page."""

    def change(self, found: list[ObjectInfo], prefix: str, start_after: str) -> list[ObjectInfo]:
        return [info for number, info in enumerate(found) if number % 50 or not number]


class DoublesAtThePage(OtherListing):
    """Shows the last key of each page again on the next one."""

    def change(self, found: list[ObjectInfo], prefix: str, start_after: str) -> list[ObjectInfo]:
        return [info for number, info in enumerate(found, 1) for _ in range(1 if number % 50 else 2)]


class DeletesOnePage(Planted):
    """Deletes the first fifty of a batch, and reports no error."""

    def delete(self, keys: Iterable[str]) -> None:
        super().delete([*keys][:50])


class DeletesByPrefix(Planted):
    """Takes a key for the beginning of keys."""

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            super().delete([info.key for info in self.list(key.removesuffix("/000000"))])


class WholeObjects(Planted):
    """Ignores ranges."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)


class OneTooMany(Planted):
    """Takes the end of a range for part of it."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return super().get_range(key, start, length + 1)


class Forgetful(Planted):
    """Never shows that an object was replaced."""

    def put(self, key: str, data: bytes) -> None:
        if not any(self.list(key)):
            super().put(key, data)


class Unsigned(Planted):
    """Marks what it creates, and loses the marks."""

    def write_id(self, key: str) -> str:
        return ""


class SignedOnce(Planted):
    """Shows one mark for everything."""

    def write_id(self, key: str) -> str:
        return "the same"


class NeverSure(Planted):
    """Never tells a loser that it has lost."""

    def create(self, key: str, data: bytes) -> None:
        try:
            super().create(key, data)
        except ObjectExistsError:
            if "taken" in key:
                raise
            raise BucketError("whether it was created is not known.") from None


class NeverThere(Planted):
    """Fails at every create-only write under a free key."""

    def create(self, key: str, data: bytes) -> None:
        if any(self.list(key)):
            raise ObjectExistsError(key)
        raise BucketError("503.")


class Failing(Planted):
    """Fails when it is asked for a range."""

    def get_range(self, key: str, start: int, length: int) -> bytes:
        raise BucketError("the store answered 503.", "Try again.")


class Closed(Planted):
    """Lets nobody write."""

    def put(self, key: str, data: bytes) -> None:
        raise ConfigError("access denied.")


class Time:
    """A clock that goes on when somebody waits."""

    def __init__(self) -> None:
        """It is some day in 2023."""
        self.ms = 1_700_000_000_000

    def now(self) -> int:
        return self.ms

    def pause(self, seconds: float) -> None:
        self.ms += round(seconds * 1000)


class Late(Planted):
    """Shows writes and deletions to everybody only `late` ms after they were made; create-only writes stay strict."""

    time: Time
    late: int
    past: dict[str, list[tuple[int, bytes | None]]]

    def note(self, key: str, data: bytes | None) -> None:
        self.past.setdefault(key, [(0, None)]).append((self.time.now(), data))

    def put(self, key: str, data: bytes) -> None:
        super().put(key, data)
        self.note(key, data)

    def create(self, key: str, data: bytes) -> None:
        super().create(key, data)
        self.note(key, data)

    def upload(self, key: str, path: Path) -> None:
        super().upload(key, path)
        self.note(key, path.read_bytes())

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            super().delete([key])
            self.note(key, None)

    def seen(self, key: str) -> bytes | None:
        shown = [data for at, data in self.past.get(key, []) if not at or at + self.late <= self.time.now()]
        return shown[-1] if shown else None

    def get(self, key: str) -> bytes:
        found = self.seen(key)
        return super().get("nothing") if found is None else found

    def get_range(self, key: str, start: int, length: int) -> bytes:
        return self.get(key)[start : start + length]

    def head(self, key: str) -> ObjectInfo:
        return ObjectInfo(key, len(self.get(key)), self.time.now())

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        for key in sorted(self.past):
            data = self.seen(key)
            if data is not None and key.startswith(prefix) and key > start_after:
                yield ObjectInfo(key, len(data), self.time.now())
