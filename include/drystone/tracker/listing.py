"""The `listing` tracker: one walk over the stream's folders, and a GET for each meta.json and mark that is new."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import ValidationError

from drystone import ulids
from drystone.block import edits as block_edits
from drystone.block import keys, marks, sources
from drystone.block import meta as block_meta
from drystone.block.edits import Edit
from drystone.block.folder import FileFacts, Folder
from drystone.block.guards import FOREVER, Hold, Pin
from drystone.block.journal import Attempt
from drystone.block.meta import META_FILE, SOURCES_FILE, Meta
from drystone.bucket.protocol import Bucket
from drystone.errors import ObjectMissingError, UnreadableBlockError
from drystone.timeline.snapshot import Snapshot
from drystone.tracker.kept import Kept

_JOURNAL_MS = 7 * 24 * 3_600_000
"""Older attempts at a merge say nothing about the next one."""
G = TypeVar("G", Hold, Pin)


@dataclass(frozen=True, slots=True)
class _Parsed:
    """What is in a meta.json or a mark, or why that cannot be told."""

    meta: Meta | None = None
    sources: frozenset[str] = frozenset()
    mark: marks.DeletionMark | None = None
    error: str = ""


class ListingTracker:
    """Finds blocks by listing. Keep the instance to spare the GETs of what it has read before.

    `bucket` may be set to the same bucket opened anew, with other credentials.
    """

    def __init__(self, bucket: Bucket, stream: str) -> None:
        """Observe `stream` in `bucket`."""
        self.bucket = bucket
        self._stream = keys.check_stream(stream)
        self._blocks = Kept(self._read)
        self._edits: Kept[Edit] = Kept(self._read_edit)
        self._journal = Kept(self._read_attempt)

    def observe(self, now: int) -> Snapshot:
        """See Tracker.observe.

        Costs a LIST of the blocks, one each of edits, pins, holds and journal, a GET of every pin and hold, and of
        every meta.json, mark, edit and attempt that is new.
        """
        unreadable: dict[str, str] = {}
        # Edits before blocks: what a block has applied must not be missing among them.
        edits = tuple(self._edits.all(self._list(keys.edits(self._stream))).values())
        pins = self._guards(keys.pins(self._stream), Pin, unreadable)
        holds = self._guards(keys.holds(self._stream), Hold, unreadable)
        found, strays = self._list_blocks()
        read = self._blocks.all(
            {
                keys.block(self._stream, ulid, name): files[name]
                for ulid, files in found.items()
                for name in (META_FILE, marks.DELETION_MARK)
                if name in files
            }
        )
        folders = {ulid: folder for ulid, files in found.items() if (folder := self._folder(ulid, files, read)).files}
        journal = self._attempts(now, unreadable)
        return Snapshot(self._stream, now, folders, edits, holds, pins, strays, journal, unreadable)

    def _list(self, prefix: str, start_after: str = "") -> dict[str, FileFacts]:
        return {item.key: FileFacts(item.size, item.modified) for item in self.bucket.list(prefix, start_after)}

    def _list_blocks(self) -> tuple[dict[str, dict[str, FileFacts]], tuple[str, ...]]:
        """Return the files of each block folder, and the names that look as if they wanted to be one."""
        found: dict[str, dict[str, FileFacts]] = {}
        strays: dict[str, None] = {}
        prefix = keys.blocks(self._stream)
        for item in self.bucket.list(prefix, start_after=prefix + keys.FIRST_BLOCK):
            parsed = keys.parse_block(item.key, self._stream)
            if parsed is None:
                strays[prefix + item.key.removeprefix(prefix).split("/")[0]] = None
            else:
                found.setdefault(parsed[0], {})[parsed[1]] = FileFacts(item.size, item.modified)
        return found, tuple(strays)

    def _read(self, key: str) -> _Parsed | None:
        ulid, name = key.removeprefix(keys.blocks(self._stream)).split("/")
        try:
            raw = self.bucket.get(key)
            if name == marks.DELETION_MARK:
                return _Parsed(mark=marks.parse_deletion_mark(raw, ulid))
            meta = block_meta.parse(raw, ulid)
            return _Parsed(meta=meta, sources=self._sources(meta, key))
        except ObjectMissingError:
            return None  # Deleted since the listing: then it was never seen.
        except UnreadableBlockError as error:
            return _Parsed(error=str(error))

    def _sources(self, meta: Meta, key: str) -> frozenset[str]:
        extension = meta.drystone
        named = extension.sources_file if extension is not None else None
        if named is None:
            return frozenset(meta.compaction.sources)
        try:
            raw = self.bucket.get(keys.block(self._stream, meta.ulid, SOURCES_FILE))
        except ObjectMissingError:
            # A deletion takes meta.json first. Where that is still there, the file is not deleted but lost.
            self.bucket.head(key)
            msg = f"block {meta.ulid}: its file of sources, which meta.json names, is missing."
            raise UnreadableBlockError(msg) from None
        return sources.parse(raw, named, meta.ulid)

    def _folder(self, ulid: str, files: dict[str, FileFacts], read: Mapping[str, _Parsed]) -> Folder:
        """Return the folder, without a meta.json or mark that was deleted since the listing."""
        nothing = _Parsed()
        parsed = {name: read.get(keys.block(self._stream, ulid, name)) for name in (META_FILE, marks.DELETION_MARK)}
        there = {name: facts for name, facts in files.items() if name not in parsed or parsed[name] is not None}
        meta, mark = parsed[META_FILE] or nothing, parsed[marks.DELETION_MARK] or nothing
        return Folder(ulid, there, meta.meta, meta.sources, meta.error, mark.mark, mark.error)

    def _read_edit(self, key: str) -> Edit:
        return block_edits.parse(self.bucket.get(key), key)

    def _attempts(self, now: int, unreadable: dict[str, str]) -> tuple[Attempt, ...]:
        prefix = keys.journal(self._stream)
        oldest = ulids.new(max(now - _JOURNAL_MS, 0), entropy=bytes)
        found = self._journal.all(self._list(prefix, start_after=prefix + oldest))
        # Without one of them, at worst the same blocks are merged again.
        unreadable |= {key: each for key, each in found.items() if isinstance(each, str)}
        return tuple(each for each in found.values() if isinstance(each, Attempt))

    def _read_attempt(self, key: str) -> Attempt | str | None:
        try:
            return Attempt.model_validate_json(self.bucket.get(key))
        except ObjectMissingError:
            return None
        except ValidationError as error:
            return f"{key} cannot be read: {error.errors()[0]['msg']}."

    def _guards(self, prefix: str, model: type[G], unreadable: dict[str, str]) -> tuple[G, ...]:
        found: list[G] = []
        for key in self._list(prefix):
            try:
                found.append(model.model_validate_json(self.bucket.get(key)))
            except ObjectMissingError:
                continue
            except ValidationError as error:
                # Nobody knows what it asks for, so it keeps removers off until a person has looked; readers go on.
                unreadable[key] = f"{key} cannot be read: {error.errors()[0]['msg']}."
                found.append(model(owner="unknown", reason=unreadable[key], created=0, expires=FOREVER))
        return tuple(found)
