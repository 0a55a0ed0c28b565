"""The audit log: append-only, objects of JSON lines under `<stream>/.audit/`, one line for each action.

Who is about to act writes what it intends first, and what became of it afterwards. So a run that is killed in between
leaves lines that nobody has closed, and no act without a line. What an intended removal rests on is named in its line:
however the upload of those blocks was logged, from then on they are known as once whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Literal

from drystone import ulids
from drystone.block import keys
from drystone.bucket.protocol import Bucket
from drystone.errors import UnreadableBlockError

_SOURCE = "source "
_CLOCKS_APART_MS = 3_600_000

Outcome = Literal["intended", "done", "left", "failed"]
"""`intended`: before the act. `left`: a second look spoke against it. `failed`: it was tried, and may be done."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One action: what was done to which block, why, by which run, when (ms since the epoch).

    `block`: its ULID, or the id of the edit, or the name of the hold. `by`: the person who asked for it, if one did.
    `note`: why it was left, or how it failed. `needs`: the blocks that it rests on, for a removal.
    """

    what: str
    block: str
    why: str
    run: str
    when: int
    outcome: Outcome = "done"
    by: str = ""
    note: str = ""
    needs: tuple[str, ...] = ()


def append(bucket: Bucket, stream: str, entries: Iterable[Entry], now: int) -> None:
    """Add the entries to the log as one object; nothing if there are none."""
    lines = "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)
    if lines:
        bucket.create(f"{keys.audit(stream)}{ulids.new(now)}.jsonl", lines.encode())


def conclude(
    bucket: Bucket, stream: str, intended: Iterable[Entry], outcomes: Mapping[str, tuple[Outcome, str]], now: int
) -> None:
    """Log what became of intended actions: the outcome and a note, by the name that the action's line has for `block`.

    What is not named goes on as intended: nobody came to it.
    """
    found = (entry for entry in intended if entry.block in outcomes)
    lines = (replace(e, outcome=outcomes[e.block][0], note=outcomes[e.block][1], when=now) for e in found)
    append(bucket, stream, lines, now)


def read(bucket: Bucket, stream: str) -> Iterator[Entry]:
    """Yield the whole log, in the order in which it was written; raise UnreadableBlockError for what is no log."""
    for item in bucket.list(keys.audit(stream)):
        try:
            yield from [_entry(line) for line in bucket.get(item.key).splitlines()]
        except (ValueError, TypeError) as error:
            msg = f"the audit log {item.key} cannot be read: {error}."
            raise UnreadableBlockError(msg, "It tells what was once whole: restore it, or take it away.") from None


def actions(bucket: Bucket, stream: str) -> list[Entry]:
    """Return one entry for each action, in the order of their beginnings, with its last known outcome.

    `intended` is left for an action of a run that died, or has not come to it yet.
    """
    found: dict[tuple[str, str, str, int], Entry] = {}
    begun: dict[tuple[str, str, str], tuple[str, str, str, int]] = {}
    for entry in read(bucket, stream):
        name = (entry.run, entry.what, entry.block)
        if entry.outcome == "intended":
            key = (*name, entry.when)
            begun[name] = key
            found[key] = entry
        else:
            key = begun.pop(name, (*name, entry.when))
            first = found.get(key, entry)
            found[key] = replace(first, outcome=entry.outcome, note=entry.note)
    return list(found.values())


def uploaded(bucket: Bucket, stream: str) -> frozenset[str]:
    """Return the ULIDs of all blocks that the log knows as once whole: uploaded, or relied on by a removal."""
    found: set[str] = set()
    for entry in read(bucket, stream):
        if entry.what == "upload":
            found.add(entry.block)
        found.update(entry.needs)
    return frozenset(found)


def upload_of(bucket: Bucket, stream: str, ulid: str, most: int = 200) -> Entry | None:
    """Return the line that tells of the upload of a block; None if it is not in the next `most` objects of the log.

    They are read from the time when its upload began, clocks that are an hour apart allowed for.
    """
    oldest = ulids.new(max(ulids.time_of(ulid) - _CLOCKS_APART_MS, 0), entropy=bytes)
    prefix = keys.audit(stream)
    for item in islice(bucket.list(prefix, start_after=prefix + oldest), most):
        for line in bucket.get(item.key).splitlines():
            entry = _entry(line)
            if entry.what == "upload" and entry.block == ulid:
                return entry
    return None


def first_generation(bucket: Bucket, stream: str) -> frozenset[str]:
    """Return the sources that the log knows as uploaded, and not as the replacement of another one."""
    replacing: set[str] = set()
    found: dict[str, str] = {}
    for entry in read(bucket, stream):
        if entry.what == "replace":
            replacing.add(entry.block)
        elif entry.what == "upload" and entry.why.startswith(_SOURCE):
            found[entry.block] = entry.why.removeprefix(_SOURCE)
    return frozenset(source for block, source in found.items() if block not in replacing)


def _entry(line: bytes) -> Entry:
    fields = json.loads(line)
    entry = Entry(**fields)
    return replace(entry, needs=tuple(entry.needs))
