"""Holds, pins and leases: small objects that keep removers off. Source: the design, "Blocks: guards"."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

FOREVER = 1 << 62
"""An expiry that never comes."""


class _Guard(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    version: Literal[1] = 1
    owner: str
    reason: str = ""
    created: int
    """ms since the epoch."""
    expires: int
    """ms since the epoch."""

    def to_json(self) -> bytes:
        """Return the bytes of the object."""
        return self.model_dump_json(indent=1).encode()


class Pin(_Guard):
    """A long read: written before it looks, and until it expires nothing of the stream is deleted."""


class Hold(_Guard):
    """Keeps every remover and compactor off these blocks, or off the whole stream where none are named."""

    blocks: tuple[str, ...] = ()


class Lease(_Guard):
    """Says which run is the one remover."""
