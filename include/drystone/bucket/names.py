"""Which keys a bucket takes: one rule for every store, so that objects can move between them."""

from __future__ import annotations

from drystone.errors import UsageError

MAX_KEY_BYTES = 1024
"""S3's limit for a whole key, in UTF-8."""
MAX_PART_BYTES = 255
"""The usual file system's limit for one part, in UTF-8."""
TEMP_FOLDER = ".tmp-drystone"
"""Where a local bucket keeps what is being written; no key has this part, and no listing shows it."""

_FORBIDDEN = frozenset({"", ".", "..", TEMP_FOLDER})


def check_key(key: str) -> str:
    """Return `key`; raise UsageError if no object can have it.

    A key is `/`-separated UTF-8: no part is empty, `.`, `..` or the name of the temp folder, none is longer than 255
    bytes, the whole is not longer than 1,024 bytes, and there is no NUL in it.
    """
    problem = _problem(key)
    if problem:
        raise UsageError(f"{key!r} cannot be the key of an object: {problem}.", "Use a path such as 'folder/name'.")
    return key


def is_key(text: str) -> bool:
    """Tell whether `check_key` takes `text`."""
    return not _problem(text)


def fits(key: str) -> bool:
    """Tell whether `key` is UTF-8 and short enough: what is left to check of a name that a file system gave."""
    try:
        return len(key.encode()) <= MAX_KEY_BYTES
    except UnicodeEncodeError:
        return False


def check_range(start: int, length: int) -> None:
    """Raise UsageError if no range of bytes begins at `start` and is `length` long: one of them is negative."""
    if start < 0 or length < 0:
        raise UsageError(f"no range begins at {start} and has {length} bytes.", "Both must be 0 or more.")


def _problem(key: str) -> str:
    if not fits(key):
        return f"it is longer than {MAX_KEY_BYTES:,} bytes, or not UTF-8"
    if "\0" in key:
        return "it has a NUL in it"
    for part in key.split("/"):
        if part in _FORBIDDEN:
            return f"a part of it is {part!r}"
        if len(part.encode()) > MAX_PART_BYTES:
            return f"a part of it is longer than {MAX_PART_BYTES} bytes"
    return ""
