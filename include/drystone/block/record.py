"""The stream record, `<stream>/.stream.json`: what a reader must know of a stream without its configuration."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from drystone.block.chunks import Granularity
from drystone.block.states import Times


class StreamRecord(BaseModel):
    """The part of a stream's configuration that its data was written under, and that reads depend on."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    version: Literal[1] = 1
    stream: str
    time_column: str
    sort_key: tuple[str, ...]
    ingest_granularity: Granularity
    major_granularity: Granularity
    generation: int
    times: dict[str, int]
    """The fields of `Times`, in ms."""

    @property
    def rules(self) -> Times:
        """The times as the pure parts take them."""
        known = Times.__dataclass_fields__.keys()
        return Times(**{name: value for name, value in self.times.items() if name in known})

    def to_json(self) -> bytes:
        """Return the bytes of the record."""
        return self.model_dump_json(indent=1).encode()
