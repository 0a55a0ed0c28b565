"""A schema as a stream keeps it: column names and types, and their fingerprint."""

from __future__ import annotations

import hashlib

from pydantic import BaseModel, ConfigDict


class Column(BaseModel):
    """One column, with a type's name as the configuration spells it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    type: str


class Schema(BaseModel):
    """The columns of a block's rows, in order, without Drystone's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    version: int = 1
    columns: tuple[Column, ...]

    @property
    def fingerprint(self) -> str:
        """A name for exactly this schema: 32 hexadecimal digits."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:32]

    def to_json(self) -> bytes:
        """Return the bytes of the schema's object, `.schemas/<fingerprint>.json`."""
        return self.model_dump_json(indent=1).encode()
