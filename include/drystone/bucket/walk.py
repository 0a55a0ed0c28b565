"""Walking a folder in the byte order of whole keys, and only where it matters.

That order is not the order of a depth-first walk by name: `a-b` and `a.b` sort before `a/b`, and `a0` after it. Giving
a folder's name its slash before names are compared is all that it takes, because code points sort like UTF-8.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from drystone.bucket.names import TEMP_FOLDER, fits, is_key


def walk(root: Path, prefix: str, start_after: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield (key, facts) of every file under `root` with `prefix` and after `start_after`, in the byte order of keys.

    What appears or vanishes meanwhile is shown or not; what stays is shown once. Names that are no UTF-8, symbolic
    links and whatever else is no regular file are no objects. Folders that cannot hold a match are not read. Raises
    OSError if one that can may not be read.
    """
    folder = prefix[: prefix.rfind("/") + 1]
    if folder and not is_key(folder[:-1]):
        return
    pending = [folder]  # Keys to come, the next one last; a folder's ends with a slash (the root's is empty).
    while pending:
        key = pending.pop()
        if not key or key.endswith("/"):
            pending += sorted(_children(root, key, prefix, start_after), reverse=True)
        elif (facts := _facts(root / key)) is not None:
            yield key, facts


def _children(root: Path, folder: str, prefix: str, start_after: str) -> Iterator[str]:
    try:
        entries = os.scandir(root / folder)
    except (FileNotFoundError, NotADirectoryError):
        return
    with entries:
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            key = f"{folder}{entry.name}/" if is_folder else f"{folder}{entry.name}"
            if entry.name == TEMP_FOLDER or not fits(key):
                continue
            if _leads_to_match(key, prefix, start_after) if is_folder else _matches(key, prefix, start_after):
                yield key


def _matches(key: str, prefix: str, start_after: str) -> bool:
    return key > start_after and key.startswith(prefix)


def _leads_to_match(folder: str, prefix: str, start_after: str) -> bool:
    return (folder.startswith(prefix) or prefix.startswith(folder)) and (
        folder > start_after or start_after.startswith(folder)
    )


def _facts(path: Path) -> os.stat_result | None:
    try:
        facts = path.stat(follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return facts if stat.S_ISREG(facts.st_mode) else None
