"""What removals rest on, looked at again: each block that supersedes others, once for all that it supersedes.

Source: the design, "Guards: the remover asks again" and "Visibility: what must hold" (4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from drystone.block import keys
from drystone.block import meta as block_meta
from drystone.block.folder import FileFacts, Folder
from drystone.block.meta import META_FILE
from drystone.bucket.protocol import Bucket
from drystone.clock import Clock
from drystone.errors import ObjectMissingError, UnreadableBlockError

HOLDS_MS = 120_000
"""For how long (ms) a look at a block serves the acts that rest on it."""


@dataclass(frozen=True, slots=True)
class SecondLook:
    """A remover's eyes on a stream, for one batch of acts; can be sent to other processes.

    What supersedes hundreds of blocks is not looked at for each: a look, of one listing of the block's folder and one
    GET of its meta.json, serves for `HOLDS_MS`.
    """

    bucket: Bucket
    stream: str
    clock: Clock
    _seen: dict[str, tuple[int, str]] = field(default_factory=dict)

    def unmet(self, needs: Sequence[str]) -> str:
        """Return "" if every one of these blocks is whole and has no mark, else what is wrong with the first other.

        Whole: its meta.json can be read, and every file that it lists is there in the listed size.
        """
        for ulid in needs:
            now = self.clock()
            looked, wrong = self._seen.get(ulid, (now - HOLDS_MS, ""))
            if not now - HOLDS_MS < looked <= now:
                wrong = self._look(ulid)
                self._seen[ulid] = now, wrong
            if wrong:
                return f"block {ulid}, which supersedes it, {wrong}"
        return ""

    def is_stale(self, began: int, needs: Sequence[str]) -> bool:
        """Tell whether an act that `began` then (ms) has slept since, and what it saw may be otherwise by now."""
        oldest = min([began, *(self._seen[ulid][0] for ulid in needs if ulid in self._seen)])
        return self.clock() > oldest + 2 * HOLDS_MS

    def _look(self, ulid: str) -> str:
        prefix = keys.block(self.stream, ulid)
        listed = {item.key.removeprefix(prefix): item for item in self.bucket.list(prefix)}
        folder = Folder(ulid, {name: FileFacts(item.size, item.modified) for name, item in listed.items()})
        if not folder.has_meta:
            return "is gone"
        if folder.has_mark:
            return "is marked for deletion"
        try:
            meta = block_meta.parse(self.bucket.get(keys.block(self.stream, ulid, META_FILE)), ulid)
        except ObjectMissingError:
            return "is gone"
        except UnreadableBlockError as error:
            return f"cannot be read: {error.message}"
        missing = Folder(ulid, folder.files, meta).missing_files()
        return f"is damaged: {'; '.join(missing)}" if missing else ""
