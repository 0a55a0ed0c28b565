"""What the Kafka demo produces: the flights as JSON, keyed by tail number, with broken ones among them.

Nothing here talks to Kafka.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import flights
import msgspec
import pyarrow as pa
import pyarrow.compute as pc

FIRST, SECOND = "flights.newark", "flights.newyork"
"""The topics: the second is made while the demo runs."""
TOPICS = r"flights\..*"
PARTITIONS = {FIRST: 3, SECOND: 2}
BROKEN = 200
UNTIMED = 50
CHUNK = 2000
"""Messages of a transaction."""
_EARLY = 0.6
"""The part of Newark's flights that is produced before there is a second topic."""
_BROKEN_VALUES = (
    b'{"carrier": "UA", "flight": 15',
    b"\xff\xfe\x00",
    b"[1, 2, 3]",
    b"",
    b'{"event_time": "soon"}',
    None,
)


@dataclass(frozen=True, slots=True)
class Message:
    """A message to produce. `flight`: which row of the feed's flights it is, None if it is broken."""

    topic: str
    key: bytes | None
    value: bytes | None
    flight: int | None


@dataclass(frozen=True)
class Feed:
    """All messages in the order in which they are produced, and the rows that they must become.

    `rows`: a row for each flight, with its event time; null where its message has none. `early`: how many messages
    come before the second topic.
    """

    messages: Sequence[Message]
    rows: pa.Table
    early: int

    def chunks(self) -> Iterator[Sequence[Message]]:
        """Yield the messages in portions, none of which holds messages from both before and after `early`."""
        for begin, end in ((0, self.early), (self.early, len(self.messages))):
            for start in range(begin, end, CHUNK):
                yield self.messages[start : min(start + CHUNK, end)]


def feed(table: pa.Table, seed: int = 2013, broken: int = BROKEN, untimed: int = UNTIMED) -> Feed:
    """Return the feed of these flights, by event time: first some of Newark's, then all others."""
    dice = random.Random(seed)
    rows = flights.with_event_time(table).sort_by("event_time")
    without = set(dice.sample(range(rows.num_rows), untimed))
    times = rows["event_time"]
    timed = pa.array([index not in without for index in range(rows.num_rows)])
    rows = rows.set_column(rows.num_columns - 1, "event_time", pc.if_else(timed, times, pa.scalar(None, times.type)))
    newark = [index for index, origin in enumerate(rows["origin"].to_pylist()) if origin == "EWR"]
    first = newark[: round(len(newark) * _EARLY)]
    chosen = set(first)
    rest = [index for index in range(rows.num_rows) if index not in chosen]
    good = _messages(rows)
    early = [good[index] for index in first]
    late = [good[index] for index in rest]
    for number in range(broken):
        topic, into = (FIRST, early) if number % 2 else (SECOND, late)
        key = None if number % 3 else b"broken"
        into.insert(dice.randrange(len(into)), Message(topic, key, _BROKEN_VALUES[number % len(_BROKEN_VALUES)], None))
    return Feed([*early, *late], rows, len(early))


def _messages(rows: pa.Table) -> list[Message]:
    """Return each row as a message; what is null is not in it."""
    text = rows
    for name in ("time_hour", "event_time"):
        moments = pc.replace_substring(pc.strftime(rows[name], "%Y-%m-%dT%H:%M:%SZ"), ".000000", "")
        text = text.set_column(text.schema.get_field_index(name), name, moments)
    found = []
    for index, row in enumerate(text.to_pylist()):
        key = row["tailnum"].encode() if row["tailnum"] else None
        value = msgspec.json.encode({name: given for name, given in row.items() if given is not None})
        found.append(Message(FIRST if row["origin"] == "EWR" else SECOND, key, value, index))
    return found
