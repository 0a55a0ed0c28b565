"""The audit log: append-only, one object of JSON lines per run and verb, under `<stream>/.audit/`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass

from drystone import ulids
from drystone.block import keys
from drystone.bucket.protocol import Bucket
from drystone.errors import UnreadableBlockError


@dataclass(frozen=True, slots=True)
class Entry:
    """One action: what was done to which block, why, by which run, when (ms since the epoch)."""

    what: str
    block: str
    why: str
    run: str
    when: int


def append(bucket: Bucket, stream: str, entries: Iterable[Entry], now: int) -> None:
    """Add the entries to the log as one object; nothing if there are none."""
    lines = "".join(f"{json.dumps(asdict(entry))}\n" for entry in entries)
    if lines:
        bucket.create(f"{keys.audit(stream)}{ulids.new(now)}.jsonl", lines.encode())


def read(bucket: Bucket, stream: str) -> Iterator[Entry]:
    """Yield the whole log, in the order in which it was written; raise UnreadableBlockError for what is no log."""
    for item in bucket.list(keys.audit(stream)):
        try:
            yield from [Entry(**json.loads(line)) for line in bucket.get(item.key).splitlines()]
        except (ValueError, TypeError) as error:
            msg = f"the audit log {item.key} cannot be read: {error}."
            raise UnreadableBlockError(msg, "It tells what was once whole: restore it, or take it away.") from None


def uploaded(bucket: Bucket, stream: str) -> frozenset[str]:
    """Return the ULIDs of all blocks that the log knows as once whole."""
    return frozenset(entry.block for entry in read(bucket, stream) if entry.what == "upload")
