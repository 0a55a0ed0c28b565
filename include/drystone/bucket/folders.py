"""Making and removing the folders between objects, while others do the same."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from drystone.errors import BucketError

_ATTEMPTS = 50
"""How often a write makes its folder anew. Each needs a remover that hits a gap of microseconds."""

Move = Callable[[Path, Path], None]
"""Gives a file its final name, at once or not at all: `link` or `replace`."""


def link(source: Path, target: Path) -> None:
    """Give `source` the further name `target`; raise FileExistsError if that is taken."""
    target.hardlink_to(source)


def replace(source: Path, target: Path) -> None:
    """Give `source` the name `target` in place of whatever file has it."""
    source.replace(target)


def place(move: Move, source: Path, target: Path) -> None:
    """Do `move(source, target)` and make the folders that it needs, as often as others remove them (within bounds).

    An empty folder named like `target`, left by a remover that died, makes way. Raises FileExistsError (an object is
    there), IsADirectoryError or NotADirectoryError (another object's key is in the way), BucketError (out of attempts).
    """
    for _ in range(_ATTEMPTS):
        try:
            move(source, target)
        except FileNotFoundError:
            with suppress(FileNotFoundError):  # Removed again, as we made them: the next attempt sees that.
                make_folders(target.parent)
        except (FileExistsError, IsADirectoryError):
            if not target.is_dir():
                raise
            if not _remove_empty_tree(target):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target)) from None
        else:
            return
    message = (
        f"cannot write {target}: its folder, or the bucket's temp folder, was removed {_ATTEMPTS} times meanwhile."
    )
    raise BucketError(message, "Find out who removes it; then try again.")


def make_folders(folder: Path) -> None:
    """Make a folder and those above it, durably; one that is there is fine.

    Raises NotADirectoryError if a file has the name of one of them.
    """
    if folder.is_dir():
        return
    make_folders(folder.parent)
    try:
        folder.mkdir()
    except FileExistsError:
        if folder.is_file():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from None
    sync_folder(folder.parent)


def remove_empty(folder: Path, root: Path) -> Path:
    """Remove `folder` and those above it, below `root`, as far as they are empty; return the first that stays."""
    while folder != root:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass  # Another remover was faster; the one above may still be ours to remove.
        except OSError:
            break  # Not empty, or not ours to remove: an empty folder is no object, and harms nobody.
        folder = folder.parent
    return folder


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable, if it still exists."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_empty_tree(folder: Path) -> bool:
    """Remove the folder if there is nothing but folders in it; tell whether it is gone."""
    for inner, _, files in os.walk(folder, topdown=False):
        if files:
            return False
        with suppress(OSError):  # What is left of it keeps `folder` from going, which is what we return.
            Path(inner).rmdir()
    return not folder.is_dir()
