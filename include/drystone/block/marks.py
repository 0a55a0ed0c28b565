"""Marks: the only objects that are added to a block after its upload. Thanos' formats.

Source: the design, "Blocks: format"; Thanos `pkg/block/metadata/markers.go`.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from drystone.errors import UnreadableBlockError

DELETION_MARK = "deletion-mark.json"
NO_COMPACT_MARK = "no-compact-mark.json"
NO_DOWNSAMPLE_MARK = "no-downsample-mark.json"
EXPIRED = "expired"
"""What the deletion mark of a block says whose group had expired, every row of it."""
MARKS = frozenset({DELETION_MARK, NO_COMPACT_MARK, NO_DOWNSAMPLE_MARK})


class DeletionMark(BaseModel):
    """deletion-mark.json: the block is scheduled for deletion. `deletion_time` is in Unix seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    id: str
    version: int = 1
    details: str = ""
    deletion_time: int

    def to_json(self) -> bytes:
        """Return the bytes of the mark."""
        return self.model_dump_json(indent=1).encode()


class NoCompactMark(BaseModel):
    """no-compact-mark.json: the planner leaves the block alone. `no_compact_time` is in Unix seconds."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    id: str
    version: int = 1
    details: str = ""
    no_compact_time: int
    reason: str

    def to_json(self) -> bytes:
        """Return the bytes of the mark."""
        return self.model_dump_json(indent=1).encode()


def parse_deletion_mark(raw: bytes, ulid: str) -> DeletionMark:
    """Return the mark in block `ulid`'s folder; raise UnreadableBlockError for what is no mark of version 1.

    The mark may name another block: the folder's name decides whose mark it is, and who reads it reports it as foreign.
    """
    try:
        mark = DeletionMark.model_validate_json(raw)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise UnreadableBlockError(f"block {ulid}: {DELETION_MARK} cannot be read: {reason}.") from None
    if mark.version != 1:
        raise UnreadableBlockError(f"block {ulid}: {DELETION_MARK} has version {mark.version}, known is 1.")
    return mark
