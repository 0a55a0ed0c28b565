"""The create-only objects of Kafka ingest: where a chain begins, a plan, its slices, and what became of it.

Source: the design, "Ingest: from Kafka". A plan fixes a range of offsets of one partition, the planning time and the
parser, so every later attempt gives the same source ids. A partition's plans form a chain: each begins where the last
committed one ends. What a plan's attempt came to is decided once, by one key: docs/decisions/012-one-key-decides.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from drystone import ulids
from drystone.block import keys
from drystone.block.chunks import Granularity
from drystone.block.meta import Ulid

UNKNOWN = "unknown"
"""What stands for the time chunk in the source id of rows whose time is not known."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")
    version: Literal[1] = 1

    def to_json(self) -> bytes:
        """Return the bytes of the object."""
        return self.model_dump_json(indent=1).encode()


class Root(_Model):
    """Where the chains of a topic begin: of each partition that was known then; all others at offset 0."""

    topic: str
    topic_id: str
    starts: Mapping[int, int]
    planned_at: int

    def start(self, partition: int) -> int:
        """Return the first offset of a partition's chain."""
        return self.starts.get(partition, 0)


class Plan(_Model):
    """One attempt at offsets [start, end) of a topic's partition: all that a retry needs. `planned_at` is in ms.

    `parser`: the parser's digest, "" for a backup group. `gap`: the log had lost these offsets; there is nothing to do.
    """

    stream: str
    generation: int
    topic: str
    topic_id: str
    partition: int
    start: int = Field(ge=0)
    end: int
    planned_at: int
    parser: str
    attempt: int = Field(0, ge=0)
    reason: str
    gap: bool = False

    @model_validator(mode="after")
    def _not_empty(self) -> Self:
        if self.start >= self.end:
            msg = f"a plan must have offsets: {self.start} is not before {self.end}"
            raise ValueError(msg)
        return self

    def source(self, stream: str, granularity: Granularity, chunk_start: int | None, split: str) -> str:
        """Return the id of the source that is this plan's rows in one time chunk and part of it, in `stream`.

        That is the plan's own stream or the one of its dead letters. No `chunk_start`: the rows of unknown time.
        """
        parts = (self.stream, stream, str(self.generation), self.topic_id, str(self.partition), str(self.start))
        chunk = (granularity, UNKNOWN if chunk_start is None else str(chunk_start))
        return ulids.derive(self.planned_at, *parts, str(self.attempt), *chunk, split)

    @property
    def key(self) -> str:
        """The plan's key without a suffix."""
        return keys.kafka_plan(self.stream, self.generation, self.topic_id, self.partition, self.start, self.attempt)

    @property
    def plan_key(self) -> str:
        """The key of the plan itself."""
        return f"{self.key}.json"

    @property
    def slices_key(self) -> str:
        """The key of its slices."""
        return f"{self.key}.slices.json"

    @property
    def done_key(self) -> str:
        """The key of what became of it: the one that decides."""
        return f"{self.key}.done"

    def __str__(self) -> str:
        """Return what people call it."""
        again = f", attempt {self.attempt}" if self.attempt else ""
        return f"{self.topic}-{self.partition} [{self.start}, {self.end}){again}"


class Slice(BaseModel):
    """A plan's rows of one time chunk and part of it, in the stream or that of its dead letters: one source, one block.

    `unknown`: their time is not known; `chunk_start` (ms) is then that of the chunk of `planned_at`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")
    stream: str
    chunk_start: int
    granularity: Granularity
    split: str = ""
    unknown: bool = False
    source: Ulid
    rows: int
    first_offset: int
    last_offset: int


class Slices(_Model):
    """What the messages of a plan's attempt came to: written when all were parsed, before the first block.

    `messages`: how many there were; `bad`: how many of them could not be parsed.
    """

    attempt: int
    slices: tuple[Slice, ...]
    messages: int
    bad: int

    def sources(self) -> Mapping[str, tuple[str, ...]]:
        """Return the sources of each stream, sorted."""
        streams = {each.stream for each in self.slices}
        return {name: tuple(sorted(each.source for each in self.slices if each.stream == name)) for name in streams}


class Done(_Model):
    """What became of a plan's attempt: every slice is in a block, or it was given up. It never changes."""

    outcome: Literal["committed", "abandoned"]
    attempt: int
    run: str
    time: int
    rows: int = 0
    bad: int = 0
    slices: int = 0
    reason: str = ""


class Head(_Model):
    """How far a chain is known to be committed: where a walk may begin. Nothing depends on it."""

    start: int
