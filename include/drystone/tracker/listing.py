"""The `listing` tracker: one walk over the stream's folders, and a GET for each meta.json and mark that is new."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

from pydantic import ValidationError

from drystone import ulids
from drystone.block import edits as block_edits
from drystone.block import keys, marks
from drystone.block import meta as block_meta
from drystone.block.edits import Edit
from drystone.block.folder import FileFacts, Folder
from drystone.block.guards import FOREVER, Hold, Pin
from drystone.block.journal import Attempt
from drystone.block.meta import META_FILE, SOURCES_FILE, Meta
from drystone.bucket.protocol import Bucket
from drystone.errors import ObjectMissingError, UnreadableBlockError
from drystone.timeline.snapshot import Snapshot

_PARALLEL_GETS = 8
_JOURNAL_MS = 7 * 24 * 3_600_000
"""Older attempts at a merge say nothing about the next one."""
G = TypeVar("G", Hold, Pin)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A meta.json or mark as it was read, good for as long as its object has these facts."""

    facts: FileFacts
    meta: Meta | None = None
    sources: frozenset[str] = frozenset()
    mark: marks.DeletionMark | None = None
    error: str = ""


class ListingTracker:
    """Finds blocks by listing. Keep the instance to spare the GETs of what it has read before."""

    def __init__(self, bucket: Bucket, stream: str) -> None:
        """Observe `stream` in `bucket`."""
        self._bucket = bucket
        self._stream = keys.check_stream(stream)
        self._cache: dict[str, _Parsed] = {}

    def observe(self, now: int) -> Snapshot:
        """See Tracker.observe. Costs a LIST of the blocks, three of edits, pins and holds, and GETs of what is new."""
        edits = self._edits()
        pins = self._guards(keys.pins(self._stream), Pin)
        holds = self._guards(keys.holds(self._stream), Hold)
        found: dict[str, dict[str, FileFacts]] = {}
        strays: dict[str, None] = {}
        prefix = keys.blocks(self._stream)
        for item in self._bucket.list(prefix, start_after=prefix + keys.FIRST_BLOCK):
            parsed = keys.parse_block(item.key, self._stream)
            if parsed is None:
                strays[prefix + item.key.removeprefix(prefix).split("/")[0]] = None
            else:
                found.setdefault(parsed[0], {})[parsed[1]] = FileFacts(item.size, item.modified)
        self._read_new(found)
        folders = {ulid: self._folder(ulid, files) for ulid, files in found.items()}
        return Snapshot(self._stream, now, folders, edits, holds, pins, tuple(strays), self._journal(now))

    def _read_new(self, found: dict[str, dict[str, FileFacts]]) -> None:
        """Bring the cache up to date with the listing: read what changed, forget what is gone."""
        wanted = {
            keys.block(self._stream, ulid, name): (ulid, name, files[name])
            for ulid, files in found.items()
            for name in (META_FILE, marks.DELETION_MARK)
            if name in files
        }
        self._cache = {
            key: entry for key, entry in self._cache.items() if key in wanted and wanted[key][2] == entry.facts
        }
        new = [(key, *wanted[key]) for key in wanted if key not in self._cache]
        with ThreadPoolExecutor(_PARALLEL_GETS) as pool:
            for key, entry in zip((each[0] for each in new), pool.map(self._read, new), strict=True):
                if entry is not None:
                    self._cache[key] = entry

    def _read(self, item: tuple[str, str, str, FileFacts]) -> _Parsed | None:
        key, ulid, name, facts = item
        try:
            raw = self._bucket.get(key)
            if name == marks.DELETION_MARK:
                return _Parsed(facts, mark=marks.parse_deletion_mark(raw, ulid))
            meta = block_meta.parse(raw, ulid)
            return _Parsed(facts, meta=meta, sources=self._sources(meta))
        except ObjectMissingError:
            return None  # Deleted since the listing: then it was never seen.
        except UnreadableBlockError as error:
            return _Parsed(facts, error=str(error))

    def _sources(self, meta: Meta) -> frozenset[str]:
        extension = meta.drystone
        named = extension.sources_file if extension is not None else None
        if named is None:
            return frozenset(meta.compaction.sources)
        try:
            raw = self._bucket.get(keys.block(self._stream, meta.ulid, SOURCES_FILE))
        except ObjectMissingError:
            # Not "deleted since the listing": that would make a damaged block look like an upload that died.
            raise UnreadableBlockError(f"block {meta.ulid}: its file of sources is missing.") from None
        if hashlib.sha256(raw).hexdigest() != named.sha256:
            raise UnreadableBlockError(f"block {meta.ulid}: its file of sources is not the one that meta.json names.")
        return frozenset(json.loads(raw))

    def _folder(self, ulid: str, files: dict[str, FileFacts]) -> Folder:
        folder = Folder(ulid, files)
        entry = self._cached(ulid, META_FILE, files)
        if entry is not None:
            folder = replace(folder, meta=entry.meta, sources=entry.sources, meta_error=entry.error)
        mark = self._cached(ulid, marks.DELETION_MARK, files)
        if mark is not None:
            folder = replace(folder, mark=mark.mark, mark_error=mark.error)
        return folder

    def _cached(self, ulid: str, name: str, files: dict[str, FileFacts]) -> _Parsed | None:
        if name not in files:
            return None
        entry = self._cache.get(keys.block(self._stream, ulid, name))
        if entry is None:
            del files[name]
        return entry

    def _edits(self) -> tuple[Edit, ...]:
        prefix = keys.edits(self._stream)
        return tuple(block_edits.parse(self._bucket.get(item.key), item.key) for item in self._bucket.list(prefix))

    def _journal(self, now: int) -> tuple[Attempt, ...]:
        prefix = keys.journal(self._stream)
        oldest = ulids.new(max(now - _JOURNAL_MS, 0), entropy=bytes)
        found = self._bucket.list(prefix, start_after=prefix + oldest)
        return tuple(Attempt.model_validate_json(self._bucket.get(item.key)) for item in found)

    def _guards(self, prefix: str, model: type[G]) -> tuple[G, ...]:
        found = (self._guard(model, item.key) for item in self._bucket.list(prefix))
        return tuple(guard for guard in found if guard is not None)

    def _guard(self, model: type[G], key: str) -> G | None:
        try:
            return model.model_validate_json(self._bucket.get(key))
        except ObjectMissingError:
            return None
        except ValidationError as error:
            # Nobody knows what it asks for, so it keeps removers off until a person has looked; readers go on.
            reason = f"{key} cannot be read: {error.errors()[0]['msg']}"
            return model(owner="unknown", reason=reason, created=0, expires=FOREVER)
