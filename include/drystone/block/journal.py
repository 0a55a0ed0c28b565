"""The compactors' journal: which input sets were tried, with what outcome. Source: the design, "Own fresh outputs"."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Attempt(BaseModel):
    """One job's attempt at some merges, by their operation keys; kept as one object under `.journal/`.

    `done` maps a merge's key to the groups that it took in: until their replacement is listed and ready, nobody needs
    to merge them again. `failed` maps a key to the reason. Times are ms since the epoch.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    version: Literal[1] = 1
    run: str
    time: int
    done: dict[str, tuple[str, ...]] = {}
    failed: dict[str, str] = {}

    def to_json(self) -> bytes:
        """Return the bytes of the object."""
        return self.model_dump_json(indent=1).encode()
