"""When the blocks of a job can be read, and when marks have been seen by everybody: looked up in the bucket.

Source: the design, "Blocks: the rules" 2, 3 and 8. What is told here is decided from the bucket alone, so a sensor can
take over what another one left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby

from drystone import ulids
from drystone.airflow.outcome import read_result
from drystone.block import keys, meta
from drystone.block.folder import FileFacts, Folder
from drystone.block.marks import DELETION_MARK
from drystone.block.states import Times, is_fresh
from drystone.bucket import Bucket
from drystone.errors import ObjectMissingError, UnreadableBlockError

_NO_FILES = "its folder is not to be seen"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is not ready yet: the reason by block, and the moment (ms) before which it cannot all be."""

    reasons: dict[str, str]
    until: int

    def __str__(self) -> str:
        """Name the blocks, at most ten of them, each with its reason."""
        shown = [f"{ulid}: {reason}" for ulid, reason in sorted(self.reasons.items())[:10]]
        more = len(self.reasons) - len(shown)
        return "; ".join(shown) + (f"; and {more} more" if more else "")


@dataclass(slots=True)
class BlockWatch:
    """Looks at the blocks of some jobs until each was ready once.

    Ready: whole, past syncDelay by its ULID and by its meta.json's last-modified time. A block that is marked, or gone
    after all the time that a deletion takes, was ready long ago: that is fine too.
    """

    bucket: Bucket
    stream: str
    times: Times
    pending: set[str] = field(default_factory=set)

    @classmethod
    def of_results(cls, bucket: Bucket, stream: str, results: Iterable[str], times: Times) -> BlockWatch:
        """Return a watch over every block of the stream that the result objects with these keys list.

        They may be those of another stream's jobs, which uploaded to this one as well.

        Raises ObjectMissingError for a result that is not there (yet).
        """
        pending: set[str] = set()
        for key in results:
            result = read_result(bucket, key)
            if result is None:
                raise ObjectMissingError(key)
            pending.update(result.blocks if result.stream == stream else result.other_blocks.get(stream, ()))
        return cls(bucket, stream, times, pending)

    def look(self, now: int) -> Waiting:
        """Look once, with one listing and a GET for every meta that is new; nothing waiting means ready."""
        reasons: dict[str, str] = {}
        until = now
        folders = {folder.ulid: folder for folder in self._folders()}
        for ulid in sorted(self.pending):
            reason, moment = self._judge(ulid, folders.get(ulid), now)
            if reason:
                reasons[ulid] = reason
                until = max(until, moment)
            else:
                self.pending.discard(ulid)
        return Waiting(reasons, until)

    def _judge(self, ulid: str, folder: Folder | None, now: int) -> tuple[str, int]:
        uploaded = ulids.time_of(ulid)
        if folder is None:
            gone = uploaded + self.times.sync_delay + self.times.delete_delay
            return ("", now) if gone <= now else (_NO_FILES, now)
        if folder.has_mark:
            return "", now
        ready = max(uploaded, folder.last_activity) + self.times.sync_delay
        if not folder.loadable:
            what = folder.meta_error or ", ".join(folder.missing_files()) or "it has no meta.json"
            return f"not whole: {what}", ready
        return ("syncDelay is not over", ready) if is_fresh(folder, now, self.times) else ("", now)

    def _folders(self) -> Iterator[Folder]:
        if not self.pending:
            return
        first, last = min(self.pending), max(self.pending)
        listing = self.bucket.list(keys.blocks(self.stream), start_after=keys.block(self.stream, first))
        found = ((keys.parse_block(info.key, self.stream), info) for info in listing)
        for ulid, members in groupby(found, key=lambda pair: pair[0][0] if pair[0] else ""):
            if ulid > last:
                return
            if ulid in self.pending:
                files = {name[1]: FileFacts(info.size, info.modified) for name, info in members if name}
                yield self._read(Folder(ulid, files))

    def _read(self, folder: Folder) -> Folder:
        if not folder.has_meta:
            return folder
        try:
            raw = self.bucket.get(keys.block(self.stream, folder.ulid, meta.META_FILE))
            return Folder(folder.ulid, folder.files, meta=meta.parse(raw, folder.ulid))
        except ObjectMissingError:
            return Folder(folder.ulid, folder.files, meta_error="meta.json is listed, but cannot be read yet")
        except UnreadableBlockError as error:
            return Folder(folder.ulid, folder.files, meta_error=error.message)


def marks_until(bucket: Bucket, stream: str, times: Times) -> int:
    """Return the moment (ms) at which every deletion mark that there is now has been seen for deleteDelay; 0 if none.

    Goes by when the marks were written, by the store's clock, which may be off from a mark's own by clock_skew.
    """
    written = [
        info.modified
        for info in bucket.list(keys.blocks(stream), start_after=f"{keys.blocks(stream)}{keys.FIRST_BLOCK}")
        if info.key.endswith(f"/{DELETION_MARK}") and keys.parse_block(info.key, stream)
    ]
    return max(written) + times.delete_delay + times.clock_skew if written else 0
