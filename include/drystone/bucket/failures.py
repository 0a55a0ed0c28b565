"""What the operating system's errors mean for an object in a local folder, and what to do about them."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drystone.errors import BucketError, DrystoneError, ObjectExistsError, ObjectMissingError, UsageError

_RIGHTS = "Give this user the right to read and write everything in the bucket's folder."
_SPACE = "Nothing was written: free some space, or raise the quota or the file size limit, and try again."
_ADVICE = {
    errno.EACCES: _RIGHTS,
    errno.EPERM: _RIGHTS,
    errno.EROFS: _RIGHTS,
    errno.ENOSPC: _SPACE,
    errno.EDQUOT: _SPACE,
    errno.EFBIG: _SPACE,
    errno.EXDEV: "The whole folder of a bucket must lie on one file system.",
    errno.EMFILE: "Raise this process's limit of open files (ulimit -n).",
}
_OTHERWISE = "Look at the disk and the system's log; another attempt may succeed."


@contextmanager
def reading(key: str, path: Path) -> Iterator[None]:
    """Turn OSError into ObjectMissingError where `path` is no file, else into BucketError."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        raise ObjectMissingError(key) from None
    except OSError as error:
        raise explain(error, "read", path) from error


@contextmanager
def writing(key: str, path: Path) -> Iterator[None]:
    """Turn OSError into ObjectExistsError, into UsageError where a folder is in the way of a file, else BucketError."""
    try:
        yield
    except FileExistsError:
        raise ObjectExistsError(key) from None
    except OSError as error:
        raise explain(error, "write", path) from error


def explain(error: OSError, verb: str, path: Path) -> DrystoneError:
    """Return the error to raise in place of `error`, which kept us from `verb`-ing `path`."""
    what = f"cannot {verb} {path}: {error.strerror or error}."
    if isinstance(error, NotADirectoryError | IsADirectoryError):
        return UsageError(what, "In a local folder no key can be the folder of another; choose other keys.")
    return BucketError(what, _ADVICE.get(error.errno or 0, _OTHERWISE))
