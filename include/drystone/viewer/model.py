"""What the endpoints of the block page answer. Times are ms since the epoch, sizes bytes."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from drystone.block.states import State
from drystone.reader.details import BlockDetails
from drystone.timeline.damage import Damage, Problem
from drystone.verbs.overview import Numbers


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StreamEntry(_Model):
    """A stream of the configuration. `kind`: where its rows come from."""

    stream: str
    bucket: str
    kind: str


class Streams(_Model):
    """All streams, by name."""

    config_file: str
    streams: tuple[StreamEntry, ...]


class Kept(_Model):
    """A stream as the fleet's overview last kept it, `at` that moment; lag and trouble are those of now.

    Without `numbers`: nothing is kept of it, or only that it could not be read then.
    """

    stream: str
    at: int
    numbers: Numbers | None
    ingest_lag: int | None
    wrong: str


class Fleet(_Model):
    """What was last kept of every stream."""

    streams: tuple[Kept, ...]


class SizeBin(_Model):
    """Visible blocks of at least `low` and less than `high` bytes. `small`: a minor compaction would merge such."""

    low: int
    high: int
    blocks: int
    bytes: int
    small: bool


class ToDelete(_Model):
    """Bytes that are going to be deleted, by what comes next for them."""

    marked: int
    """Marked: deleted after deleteDelay."""
    superseded: int
    """Covered or out, and not marked yet."""
    partial: int
    """Uploads that died."""


class Summary(_Model):
    """A stream at the moment `at`: the fleet's numbers of it, and more. `waiting`: rows too young to be read.

    Lags are in ms, at that moment. `wrong`: what needs a person, in one line. Lists are cut after a hundred; `numbers`
    has how many there are.
    """

    stream: str
    bucket: str
    at: int
    generation: int
    target_block_bytes: int
    numbers: Numbers
    ingest_lag: int | None
    event_lag: int | None
    wrong: str
    waiting: int
    to_delete: ToDelete
    sizes: tuple[SizeBin, ...]
    holds: tuple[str, ...]
    pins: int
    edits: int
    damage: tuple[Damage, ...]
    problems: tuple[Problem, ...]


class BlockTable(_Model):
    """All blocks of a stream, column by column, in the order of their ULIDs. A group of one has the name of its block.

    `level`, `start`, `end` and `rows` are null where no meta.json can be read. Rows lie in [start, end).
    """

    stream: str
    at: int
    ulid: tuple[str, ...]
    state: tuple[State, ...]
    level: tuple[int | None, ...]
    chunk: tuple[str, ...]
    start: tuple[int | None, ...]
    end: tuple[int | None, ...]
    rows: tuple[int | None, ...]
    bytes: tuple[int, ...]
    sources: tuple[int, ...]
    group: tuple[str, ...]


class Run(_Model):
    """The run that uploaded a block, by its name in the audit log.

    `href`: its page in Airflow, seen from the root of Airflow's own pages; None where that is not known.
    """

    name: str
    why: str
    when: int
    href: str | None


class BlockPage(_Model):
    """Everything about one block. `run`: None where the audit log does not tell."""

    details: BlockDetails
    run: Run | None
