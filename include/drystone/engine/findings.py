"""What a verification finds, as data: where, what is wrong, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Severity = Literal["damage", "problem"]
"""`damage`: rows cannot be read, or are not what was written. `problem`: something is odd, and harms nothing else."""

_RESTORE = (
    "Restore the object from a backup or an older version; ingest the rows again into a new stream if there is none."
)
_TO_DO = {
    "missing-rows": _RESTORE,
    "unreadable-meta": "Restore meta.json from a backup or an older version; the remover leaves the block to you.",
    "missing-file": _RESTORE,
    "hash": _RESTORE,
    "content": _RESTORE,
    "checksum": _RESTORE,
    "rows": _RESTORE,
    "order": "Compact the block's time chunk again from its sources; until then reads are right, and merges refuse it.",
    "sources": "Do not compact the block (no-compact-mark.json) until it is clear who wrote these rows.",
    "schema": "Restore the object under .schemas/, or the block's files, whichever was changed.",
    "index": "Restore the index: reads of a time range rely on it, reads of everything do not.",
    "meta": "Restore meta.json: it contradicts the block's other files.",
    "owner": "Report it: the timeline is at fault, and no rows may be removed meanwhile.",
    "incomplete-group": "Nothing: its rows are read elsewhere; what a dead compaction left goes after group_timeout.",
    "partial": "Nothing: the next upload brings the rows, and a sweep takes away what is left.",
    "stray": "Remove it if nobody needs it; nothing of Drystone reads it.",
    "future": "Set the clock of the machine that wrote it; the block stays Fresh until its time has come.",
    "foreign": "Keep other tools' blocks in a prefix of their own.",
    "foreign-mark": "Remove the mark if the block shall stay; nothing is deleted that is not superseded.",
    "unreadable": "Restore the object or remove it; until then the remover keeps off what it may speak of.",
    "unreadable-mark": "Remove the mark: while it is there, the block is neither compacted nor deleted.",
    "disagreeing-group": "Restore the meta.json that was changed; the blocks of one group were written to agree.",
    "narrow-replacement": "Nothing is lost; remove the wider group's block by hand if it was a mistake.",
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    `block`: its ULID, or a group's id, or "". `file`: the file's name in the block, or a key, or "".
    """

    severity: Severity
    kind: str
    block: str
    file: str
    what: str
    to_do: str


def damage(kind: str, block: str, file: str, what: str) -> Finding:
    """Return the finding that rows cannot be read, or are not what was written."""
    return Finding("damage", kind, block, file, what, _TO_DO[kind])


def problem(kind: str, block: str, file: str, what: str) -> Finding:
    """Return the finding of something odd; of a kind that is not known here, without advice."""
    return Finding("problem", kind, block, file, what, _TO_DO.get(kind, ""))
