"""What one listing and one GET tell of a block's folder, before anybody judges it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from drystone.block.marks import DELETION_MARK, MARKS, NO_COMPACT_MARK, DeletionMark
from drystone.block.meta import INDEX_FILE, META_FILE, SOURCES_FILE, Meta

_NOTHING: Mapping[str, FileFacts] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class FileFacts:
    """An object's size in bytes, and when it was last modified (ms since the epoch)."""

    size: int
    modified: int


@dataclass(frozen=True, slots=True)
class Folder:
    """The folder `<stream>/<ulid>/`: its objects by relative name, its meta and its mark as far as they could be read.

    `meta_error` and `mark_error` say why one could not. `sources` is the block's whole source set, from meta.json or
    from the `sources` file that it names.
    """

    ulid: str
    files: Mapping[str, FileFacts] = field(default_factory=lambda: _NOTHING)
    meta: Meta | None = None
    sources: frozenset[str] = frozenset()
    meta_error: str = ""
    mark: DeletionMark | None = None
    mark_error: str = ""

    @property
    def has_meta(self) -> bool:
        """Whether meta.json is there, readable or not."""
        return META_FILE in self.files

    @property
    def has_mark(self) -> bool:
        """Whether a deletion mark is there, readable or not. It is this block's, whatever id it names."""
        return DELETION_MARK in self.files

    @property
    def no_compact(self) -> bool:
        """Whether planners are told to leave the block alone."""
        return NO_COMPACT_MARK in self.files

    @property
    def size(self) -> int:
        """Bytes of all objects, marks aside."""
        return sum(facts.size for name, facts in self.files.items() if name not in MARKS)

    @property
    def last_activity(self) -> int:
        """When anything in the folder was last modified, in ms; 0 for an empty one."""
        return max((facts.modified for facts in self.files.values()), default=0)

    @property
    def fingerprint(self) -> str:
        """A name for exactly these objects, by their names, sizes and times: an object that came or changed shows."""
        return fingerprint(self.files)

    def missing_files(self) -> tuple[str, ...]:
        """Return what meta.json lists and the folder does not hold in that size, each with the reason."""
        if self.meta is None:
            return ()
        found = []
        for file in self.meta.thanos.files:
            facts = self.files.get(file.rel_path)
            if file.rel_path == META_FILE:
                continue
            if facts is None:
                found.append(f"{file.rel_path} is missing")
            elif file.size_bytes is not None and facts.size != file.size_bytes:
                found.append(f"{file.rel_path} has {facts.size} bytes, not {file.size_bytes}")
        return tuple(found)

    def stray_files(self) -> tuple[str, ...]:
        """Return the objects that are no part of the block: neither listed by its meta.json, nor a mark."""
        if self.meta is None:
            return ()
        known = {file.rel_path for file in self.meta.thanos.files} | MARKS | {META_FILE, INDEX_FILE, SOURCES_FILE}
        return tuple(sorted(self.files.keys() - known))

    @property
    def loadable(self) -> bool:
        """Whether meta.json was read and every file that it lists is there in the listed size."""
        return self.meta is not None and not self.missing_files()


def fingerprint(files: Mapping[str, FileFacts]) -> str:
    """Return 32 hexadecimal digits that stand for these objects of a folder."""
    listed = sorted((name, facts.size, facts.modified) for name, facts in files.items())
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()[:32]
