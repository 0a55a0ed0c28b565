"""Plans: what a run would do, as data. A dry run prints the very object that the real run executes."""

from __future__ import annotations

import hashlib
from typing import Literal

from pydantic import BaseModel, ConfigDict

from drystone.block.chunks import Granularity
from drystone.errors import PlanExpiredError


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Merge(_Model):
    """Rewrite whole groups into one new group of `outputs` blocks, sorted, in one time chunk.

    `key` names the work, not the execution: the same inputs always give the same key. `bytes`, `rows`: of the inputs.
    """

    action: Literal["merge"] = "merge"
    key: str
    kind: Literal["overlap", "minor", "major"]
    chunk_start: int
    chunk_end: int
    granularity: Granularity
    label: str
    groups: tuple[str, ...]
    blocks: tuple[str, ...]
    outputs: int
    bytes: int
    rows: int
    reason: str


class Mark(_Model):
    """Schedule a block for deletion. `needs`: blocks that must be whole and unmarked for that to be right."""

    action: Literal["mark"] = "mark"
    ulid: str
    reason: str
    needs: tuple[str, ...] = ()


class Unmark(_Model):
    """Take a deletion mark away that nothing justifies."""

    action: Literal["unmark"] = "unmark"
    ulid: str
    reason: str


class Delete(_Model):
    """Remove a block's folder for good. `needs` as in Mark; `kind` says which rule allows it."""

    action: Literal["delete"] = "delete"
    ulid: str
    kind: Literal["marked", "unfinished", "partial"]
    bytes: int
    reason: str
    needs: tuple[str, ...] = ()


class Skip(_Model):
    """Something that the planner left alone, and why."""

    name: str
    reason: str


Action = Merge | Mark | Unmark | Delete


class Plan(_Model):
    """Actions in the order in which they are to be done. Times are ms since the epoch."""

    version: Literal[1] = 1
    id: str
    stream: str
    kind: Literal["minor", "major", "mark", "sweep"]
    created: int
    expires: int
    merges: tuple[Merge, ...] = ()
    unmarks: tuple[Unmark, ...] = ()
    marks: tuple[Mark, ...] = ()
    deletes: tuple[Delete, ...] = ()
    skipped: tuple[Skip, ...] = ()
    batches: tuple[tuple[int, ...], ...] = ()
    """Which merges each mapped task executes, by their position."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """All of them; a plan has one kind, unmarks before marks."""
        return (*self.merges, *self.unmarks, *self.marks, *self.deletes)

    def check(self, now: int) -> None:
        """Raise PlanExpiredError if the plan is too old to be acted on."""
        if now >= self.expires:
            msg = f"plan {self.id} of stream {self.stream} expired {(now - self.expires) / 1000:.0f} s ago."
            raise PlanExpiredError(msg, "Plan again; plan_ttl sets how long a plan holds.")

    def to_json(self) -> bytes:
        """Return the bytes of the plan's object."""
        return self.model_dump_json(indent=1).encode()


def merge_key(kind: str, granularity: str, outputs: int, blocks: tuple[str, ...]) -> str:
    """Return the idempotency key of a merge."""
    text = "|".join((kind, granularity, str(outputs), *sorted(blocks)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
