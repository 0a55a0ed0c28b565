"""Edits: immutable objects `<stream>/.edits/<ULID>.json` that take rows away, and never come off again.

Source: the design, "Visibility: edits". They commute, so they need neither order nor lock. An *expire* is read row by
row (rows whose time is before the limit), so that a coarser block that still holds such rows cannot bring them back.

An edit's id is derived from what was asked for, so that asking again makes no second edit.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from drystone import ulids
from drystone.block.meta import Ulid
from drystone.block.predicates import Predicate
from drystone.errors import UnreadableBlockError


class _Edit(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    version: Literal[1] = 1
    id: Ulid
    reason: str
    author: str
    time: int
    """When the edit was made, in ms since the epoch."""

    def to_json(self) -> bytes:
        """Return the bytes of the edit's object."""
        return self.model_dump_json(indent=1).encode()


class Erase(_Edit):
    """Rows that match are gone, in sources planned before `time` + clock skew and in what replaces those."""

    kind: Literal["erase"] = "erase"
    predicate: Predicate


class Retire(_Edit):
    """These sources are gone."""

    kind: Literal["retire"] = "retire"
    sources: tuple[Ulid, ...] = Field(min_length=1)


class Expire(_Edit):
    """Rows whose event time lies before `before` (ms since the epoch) are gone.

    `resolution`: only those in blocks of this resolution (ms; 0: rows as they came in); None: all.
    """

    kind: Literal["expire"] = "expire"
    before: int
    resolution: int | None = None

    def takes_from(self, resolution: int) -> bool:
        """Tell whether it takes rows from blocks of this resolution."""
        return self.resolution is None or self.resolution == resolution


Edit = Erase | Retire | Expire
_ADAPTER: TypeAdapter[Edit] = TypeAdapter(Annotated[Edit, Field(discriminator="kind")])


def edit_id(stream: str, kind: str, *request: str) -> str:
    """Return the id of the one edit that answers this request. Its time part is 0: asking later gives the same."""
    return ulids.derive(0, "edit", stream, kind, *request)


def parse(raw: bytes, key: str) -> Edit:
    """Return the edit in object `key`; raise UnreadableBlockError if it is none.

    An edit that cannot be read must stop a read (it may take away rows), so callers do not skip it.
    """
    try:
        edit = _ADAPTER.validate_json(raw)
    except ValidationError as error:
        first = error.errors()[0]
        path = "".join(f"{part}: " for part in first["loc"][1:])
        what = f"edit {key} cannot be read: {path}{first['msg']}."
        raise UnreadableBlockError(what, "Reads stop until it can be.") from None
    if not key.endswith(f"/{edit.id}.json"):
        raise UnreadableBlockError(f"edit {key} says that it is {edit.id}.", "Reads stop until it is put right.")
    return edit
