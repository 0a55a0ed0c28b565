"""A bucket in a local folder (or a mounted one): for a laptop, for tests, and for teams with a shared disk."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from drystone.bucket.failures import explain, reading, writing
from drystone.bucket.folders import Move, link, make_folders, place, remove_empty, replace, sync_folder
from drystone.bucket.names import TEMP_FOLDER, check_key, check_range
from drystone.bucket.protocol import ObjectInfo
from drystone.bucket.sources import open_source
from drystone.bucket.walk import walk
from drystone.clock import Clock, system
from drystone.errors import ObjectMissingError

ABANDONED_AFTER = 3_600_000
"""A temp file that nobody has touched for this long (ms) belongs to a writer that died."""

_LATE = 1_000
_COPY_BYTES = 1 << 20
_NO_LINK = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS})


class LocalBucket:
    """Every object is one file, its key the path below `folder`, which is made by the first write.

    A write is whole and on the disk when it returns: it is prepared in `<folder>/.tmp-drystone/`, synced, and given its
    name at once: by link(2), which fails where the name is taken, or by rename(2). So the folder must lie on one file
    system that has hard links, and no object's key can be the folder of another's. Folders that a deletion leaves empty
    go too. Symbolic links below the folder are not objects, and are not followed by listings.

    An object's time is that of `clock` when it got its name, and not when its bytes were prepared.
    """

    def __init__(self, folder: Path, clock: Clock = system) -> None:
        """`folder`: need not exist. A relative one is taken from the current working directory, now."""
        self._root = folder.absolute()
        self._clock = clock
        self._cleaned = False

    def __repr__(self) -> str:
        """Name the folder."""
        return f"LocalBucket({str(self._root)!r})"

    @property
    def url(self) -> str:
        """`file://` and the absolute path, as it is: without percent-encoding, like Hadoop's."""
        return f"file://{self._root}"

    def uri(self, key: str) -> str:
        """`file://` and the absolute path of the object's file, without percent-encoding."""
        return f"file://{self.path(key)}"

    def path(self, key: str) -> Path:
        """Return the file that is, or would be, this object. It must not be written to."""
        return self._root / check_key(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectInfo]:
        """See `Bucket.list`. Folders that cannot hold a match are not read."""
        try:
            for key, facts in walk(self._root, prefix, start_after):
                yield _info(key, facts)
        except OSError as error:
            raise explain(error, "list", Path(error.filename or self._root)) from error

    def head(self, key: str) -> ObjectInfo:
        """See `Bucket.head`."""
        path = self.path(key)
        with reading(key, path):
            facts = path.stat(follow_symlinks=False)
        if not stat.S_ISREG(facts.st_mode):
            raise ObjectMissingError(key)
        return _info(key, facts)

    def get(self, key: str) -> bytes:
        """See `Bucket.get`."""
        path = self.path(key)
        with reading(key, path):
            return path.read_bytes()

    def get_range(self, key: str, start: int, length: int) -> bytes:
        """See `Bucket.get_range`."""
        check_range(start, length)
        path = self.path(key)
        with reading(key, path), path.open("rb", buffering=0) as file:
            rest = max(0, os.fstat(file.fileno()).st_size - start)
            file.seek(start)
            return _read_fully(file, min(length, rest))

    def put(self, key: str, data: bytes) -> None:
        """See `Bucket.put`."""
        target = self.path(key)
        with writing(key, target), self._temp_file() as file:
            file.write(data)
            self._publish(replace, file, Path(file.name), target)

    def create(self, key: str, data: bytes) -> None:
        """See `Bucket.create`."""
        target = self.path(key)
        with writing(key, target), self._temp_file() as file:
            file.write(data)
            self._publish(link, file, Path(file.name), target)

    def upload(self, key: str, path: Path) -> None:
        """See `Bucket.upload`. On the bucket's own file system the object is a hard link to `path`, and costs nothing.

        `path` then takes the object's time (its modification time is set to now) and may be deleted, but not changed.
        It is copied instead if it has further names already, or lies in the bucket: those keep their own time.
        """
        target = self.path(key)
        with open_source(path) as source, writing(key, target):
            try:
                # Of a symbolic link, link(2) would make another one.
                linked = self._publish_link(source, path.resolve(), target)
            except OSError as error:
                if error.errno not in _NO_LINK:
                    raise
                linked = False
            if not linked:
                with self._temp_file() as file:
                    shutil.copyfileobj(source, file, _COPY_BYTES)
                    self._publish(link, file, Path(file.name), target)

    def delete(self, keys: Iterable[str]) -> None:
        """See `Bucket.delete`. Strictly in order; it stops at the first object that cannot be removed."""
        touched = set()
        for key in keys:
            path = self.path(key)
            try:
                path.unlink()
            except (FileNotFoundError, NotADirectoryError):
                pass  # Its folder is still looked at: a remover may have died between the two.
            except OSError as error:
                if _is_folder(path):
                    continue
                raise explain(error, "delete", path) from error
            touched.add(remove_empty(path.parent, self._root))
        for folder in touched:
            try:
                sync_folder(folder)
            except OSError as error:
                raise explain(error, "sync", folder) from error

    def _publish_link(self, file: BinaryIO, source: Path, target: Path) -> bool:
        """Publish a file that is not ours by a further name for it; do nothing and return False if that is unsafe."""
        alone = os.fstat(file.fileno()).st_nlink == 1 and self._root.resolve() not in source.parents
        if alone:
            self._publish(link, file, source, target)
        return alone

    @contextmanager
    def _temp_file(self) -> Iterator[BinaryIO]:
        folder = self._root / TEMP_FOLDER
        make_folders(folder)
        if not self._cleaned:
            remove_abandoned(folder, system())
            self._cleaned = True
        path = folder / f"{os.getpid()}-{secrets.token_hex(8)}"
        try:
            with path.open("xb") as file:
                yield file
        finally:
            path.unlink(missing_ok=True)

    def _publish(self, move: Move, file: BinaryIO, source: Path, target: Path) -> None:
        """Sync the file `source` (open as `file`), stamp it, and give it its name."""
        file.flush()
        os.fsync(file.fileno())
        stamped = self._stamp(file)
        place(move, source, target)
        # Whoever was stopped between the two has made an object that looks older than it is, and readers trust an
        # object's age (design, "Blocks: the rules", 2). Looking younger than it is does no harm.
        if self._clock() - stamped > _LATE:
            self._stamp(file)
        sync_folder(target.parent)

    def _stamp(self, file: BinaryIO) -> int:
        now = self._clock()
        os.utime(file.fileno(), ns=(now * 1_000_000, now * 1_000_000))
        return now


def remove_abandoned(folder: Path, now: int) -> None:
    """Remove the temp files that dead writers left in `folder`; those of other users are left to them.

    `now`: the machine's time in ms, because it is compared with the time that the system noted for the last change.
    """
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError, PermissionError):
                if now - entry.stat(follow_symlinks=False).st_ctime_ns // 1_000_000 > ABANDONED_AFTER:
                    Path(entry.path).unlink()


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # Whoever may not even look at it has a first error to tell of.
        return False


def _read_fully(file: BinaryIO, length: int) -> bytes:
    parts = []
    while length and (part := file.read(length)):
        parts.append(part)
        length -= len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _info(key: str, facts: os.stat_result) -> ObjectInfo:
    return ObjectInfo(key, facts.st_size, facts.st_mtime_ns // 1_000_000)
