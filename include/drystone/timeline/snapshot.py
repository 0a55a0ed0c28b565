"""A snapshot: what one run observed of a stream, taken once and not refetched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from drystone.block.edits import Edit
from drystone.block.folder import Folder
from drystone.block.guards import Hold, Pin
from drystone.block.journal import Attempt


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything in a stream's prefix that decisions rest on. `taken_at` is when the listing began, in ms.

    `strays` are keys that belong to no block but look as if they wanted to, such as a ULID in lower case. `unreadable`
    says of keys of Drystone's own, blocks and edits aside, why they could not be read.
    """

    stream: str
    taken_at: int
    folders: Mapping[str, Folder] = field(default_factory=dict)
    edits: tuple[Edit, ...] = ()
    holds: tuple[Hold, ...] = ()
    pins: tuple[Pin, ...] = ()
    strays: tuple[str, ...] = ()
    journal: tuple[Attempt, ...] = ()
    unreadable: Mapping[str, str] = field(default_factory=dict)
