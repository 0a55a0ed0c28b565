"""The messages of one plan on their way to the spools: checked, parsed or taken as they are, cut into slices."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from drystone.config.ingest import POSITION
from drystone.errors import DrystoneError, InputError, InvariantError
from drystone.ingest.kafka.plans import Plan
from drystone.ingest.kafka.rows import dead_rows, places, raw_rows
from drystone.ingest.kafka.slicing import cut
from drystone.ingest.kafka.spools import Spools
from drystone.ingest.origin import Target
from drystone.ingest.parsers.protocol import Parsed, Parser
from drystone.jobs import moment
from drystone.rows import columns
from drystone.rows.arrow_schema import to_arrow

_PORTION = 16
"""A portion takes this part of the memory: parsed, it may take several times as much."""
_SHOWN = 3
_OFFSET = "kafka_offset"

Route = Callable[[str, pa.ChunkedArray], pa.StringArray]
"""Tells for rows of a stream, by their offsets, the part of the chunk that each goes into."""


class Intake:
    """Takes a plan's messages batch by batch. `messages` counts them, `bad` those that gave no row."""

    def __init__(
        self,
        plan: Plan,
        targets: tuple[Target, Target | None],
        parser: Parser | None,
        spools: Spools,
        memory: int,
        route: Route | None = None,
    ) -> None:
        """`targets`: where rows and dead letters go. `parser`: None to take messages as they are.

        `memory`: bytes that a task may take. `route`: what splits each chunk, in place of the parser's own parts.
        """
        self.messages = 0
        self.bad = 0
        self._plan = plan
        main, dead = targets
        self._main = main
        self._dead = dead
        self._route = route
        self._parser = parser
        self._spools = spools
        self._memory = memory
        rules = main.config.kafka
        earliest = moment(rules.earliest_time)
        self._times = int(earliest.timestamp() * 1000), plan.planned_at + rules.latest_time
        self._last = plan.start - 1
        self._reasons: list[str] = []

    def take(self, batch: pa.RecordBatch) -> None:
        """Take more messages, whose offsets come after all before.

        Raises InvariantError if they do not, or a message is none of the plan's; InputError if one is too large.
        """
        self._check_offsets(batch)
        self.add(batch)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take messages of the plan, in any order. Raises InputError if one is too large."""
        for portion in self._portions(batch):
            self.messages += portion.num_rows
            if self._parser is None:
                self._spool(raw_rows(portion, self._times), self._main, None)
            else:
                self._parse(self._parser, portion)

    def check(self, max_bad_fraction: float) -> None:
        """Raise InputError if more of the messages are bad than that, or there is no stream for such."""
        if not self.bad or (self._dead is not None and self.bad <= max_bad_fraction * self.messages):
            return
        limit = f"max_bad_fraction allows {max_bad_fraction:.2%}" if self._dead else "there are no dead_letters"
        share = f"{self.bad:,} of {self.messages:,} messages of {self._plan} cannot be parsed, and {limit}"
        msg = f"{share}; the first: {'; '.join(self._reasons)}."
        raise InputError(msg, "Nothing of it was uploaded: correct the parser, or allow more.")

    def _check_offsets(self, batch: pa.RecordBatch) -> None:
        offsets = columns.values(batch.column("offset"))
        first, last = int(offsets[0]), int(offsets[-1])
        whole = first > self._last and last < self._plan.end and bool((np.diff(offsets) > 0).all())
        if not whole:
            msg = f"offsets {first} to {last} came after {self._last}, for the plan {self._plan}."
            raise InvariantError(msg, "Nothing was uploaded; please report this.")
        self._last = last

    def _portions(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Yield the batch in parts of few enough bytes."""
        if batch.nbytes <= self._memory // _PORTION:
            yield batch
        elif batch.num_rows > 1:
            half = batch.num_rows // 2
            yield from self._portions(batch.slice(0, half))
            yield from self._portions(batch.slice(half))
        else:
            if batch.nbytes > self._memory // (_PORTION // 2):
                where = f"{self._plan.topic}-{self._plan.partition}, offset {batch.column('offset')[0]}"
                msg = f"the message at {where} has {batch.nbytes:,} bytes; a task may take {self._memory:,} for all."
                raise InputError(msg, "Nothing of its plan was uploaded: raise memory_per_task to 8 times the message.")
            yield batch

    def _parse(self, parser: Parser, portion: pa.RecordBatch) -> None:
        try:
            parsed = parser.parse(portion, self._plan.planned_at)
        except DrystoneError:
            raise
        except Exception as error:
            first, last = (portion.column("offset")[row] for row in (0, portion.num_rows - 1))
            msg = f"the parser failed among offsets {first} to {last} of {self._plan}: {error!r}."
            raise InputError(msg, "A parser must tell a bad message, and not raise: correct it.") from error
        _check_parsed(parsed, portion.num_rows)
        rows = _conform(parsed.rows, self._main)
        for name, column in places(portion, parsed.positions).items():
            rows = rows.append_column(name, column)
        self._spool(rows, self._main, self._parts(rows, self._main, parsed.splits))
        if parsed.errors:
            self._bury(portion, parsed)

    def _bury(self, portion: pa.RecordBatch, parsed: Parsed) -> None:
        self.bad += len(parsed.errors)
        for position, reason in sorted(parsed.errors)[: max(0, _SHOWN - len(self._reasons))]:
            self._reasons.append(f"offset {portion.column('offset')[position]}: {reason}")
        if self._dead is not None:
            rows = dead_rows(portion, parsed.errors, self._times)
            self._spool(rows, self._dead, self._parts(rows, self._dead, None))

    def _parts(self, rows: pa.Table, target: Target, own: pa.Array | None) -> pa.Array | None:
        return own if self._route is None else self._route(target.stream, rows.column(_OFFSET))

    def _spool(self, rows: pa.Table, target: Target, splits: pa.Array | None) -> None:
        config = target.config
        for slot, part in cut(rows, target.stream, config.time_column, config.granularity.ingest, splits):
            self._spools.add(slot, part)


def _check_parsed(parsed: Parsed, messages: int) -> None:
    """Make sure that every message is one row or one error: whatever a parser does, nothing gets lost or doubled."""
    seen = np.zeros(messages, np.int64)
    bad = np.fromiter((position for position, _ in parsed.errors), np.int64, len(parsed.errors))
    good = columns.values(parsed.positions)
    everything = np.concatenate([good, bad])
    whole = len(good) == parsed.rows.num_rows and not ((everything < 0) | (everything >= messages)).any()
    if whole:
        np.add.at(seen, everything, 1)
    if not whole or (seen != 1).any() or (np.diff(good) <= 0).any():
        msg = f"the parser made {parsed.rows.num_rows} rows and {len(bad)} errors of {messages} messages."
        raise InvariantError(msg, "Each message must give one row, in order, or one error: correct the parser.")
    if parsed.splits is not None and len(parsed.splits) != parsed.rows.num_rows:
        raise InvariantError(f"the parser gave {len(parsed.splits)} splits for {parsed.rows.num_rows} rows.")


def _conform(rows: pa.Table, target: Target) -> pa.Table:
    """Return the parser's rows in the stream's columns and types, less the place of the message."""
    wanted = [field for field in to_arrow(target.schema) if field.name not in POSITION]
    found = set(rows.column_names)
    missing = [field.name for field in wanted if field.name not in found]
    if missing:
        raise InputError(f"the parser gives no column {', '.join(missing)} of stream {target.stream}.")
    fitted = []
    for each in wanted:
        column = rows.column(each.name)
        plain = columns.plain_type(column.type)
        if plain != each.type:
            try:
                column = column.cast(each.type)
            except pa.ArrowException as error:
                msg = f"the parser gives column {each.name} as {plain}, and stream {target.stream} has {each.type}."
                raise InputError(msg, str(error).splitlines()[0]) from None
        fitted.append(column)
    return pa.table(fitted, names=[each.name for each in wanted])
