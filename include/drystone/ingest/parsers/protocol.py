"""What turns messages into rows. Source: the design, "Ingest: parsers"."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import pyarrow as pa


@dataclass(frozen=True)
class Parsed:
    """What became of a batch of messages: each is a row, or one of `errors`.

    `rows`: the parser's columns, those of the stream less `kafka_*`, one row for each good message, in their order;
    the time column is null where the time is not known. `positions`: which message of the batch each row is. `splits`:
    into which part of its time chunk each row goes, "" for none; None: there are no parts. `errors`: of each message
    that gave no row its position in the batch, and why.
    """

    rows: pa.Table
    positions: pa.Int64Array
    splits: pa.StringArray | None = None
    errors: Sequence[tuple[int, str]] = field(default=())


class Parser(Protocol):
    """Turns messages into rows. It can be pickled, and travels to Spark's workers."""

    @property
    def digest(self) -> str:
        """What a plan keeps of it: a digest of its configuration, the files that it reads and its code's version.

        Two parsers of one digest give the same rows for the same messages, always.
        """
        ...

    def parse(self, messages: pa.RecordBatch, planned_at: int) -> Parsed:
        """Parse a batch (`drystone.ingest.kafka.messages.MESSAGES`); whatever a message holds, nothing is raised.

        `planned_at` (ms since the epoch) is the same for every attempt at a plan: what there is of a present.
        """
        ...
