"""Receipts of erasures: `<stream>/.receipts/<edit>/<ULID>.json`, what was checked, and what is left. Immutable.

Source: the design, "Blocks: lifecycle verbs". Blocks are immutable, too: one that was looked through and held no such
row will never hold one.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from drystone.block.meta import Ulid
from drystone.errors import UnreadableBlockError


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Left(_Model):
    """A block that may still hold such rows, and why it does."""

    block: str
    why: str


class Elsewhere(_Model):
    """A place beside the blocks where such rows might be. `open`: they may be there. `none`: there is no such place."""

    what: str
    state: Literal["clear", "open", "none", "unknown"]
    note: str


class Receipt(_Model):
    """The state of one erasure at `time` (ms since the epoch), as run `run` found it.

    `applied` counts the blocks that were written without such rows, `later` those that only hold sources which were
    planned later; `clear` are the blocks that were looked through and hold none. `uploading` are folders of uploads
    that run: they are checked when they are whole.
    """

    version: Literal[1] = 1
    id: Ulid
    stream: str
    edit: Ulid
    time: int
    run: str
    state: Literal["open", "complete"]
    applied: int
    later: int
    clear: tuple[str, ...]
    left: tuple[Left, ...]
    uploading: tuple[str, ...]
    elsewhere: tuple[Elsewhere, ...]

    def to_json(self) -> bytes:
        """Return the bytes of the object."""
        return self.model_dump_json(indent=1).encode()

    def says_the_same(self, other: Receipt) -> bool:
        """Tell whether two receipts differ in nothing but who wrote them when."""
        return self.model_copy(update={"id": other.id, "time": other.time, "run": other.run}) == other


def parse(raw: bytes, key: str) -> Receipt:
    """Return the receipt in object `key`; raise UnreadableBlockError if it is none."""
    try:
        return Receipt.model_validate_json(raw)
    except ValidationError as error:
        what = f"receipt {key} cannot be read: {error.errors()[0]['msg']}."
        raise UnreadableBlockError(what, "Remove it: the next run looks through the blocks again.") from None
