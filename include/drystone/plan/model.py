"""Plans: what a run would do, as data. A dry run prints the very object that the real run executes."""

from __future__ import annotations

import hashlib
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from drystone.block.chunks import Granularity
from drystone.block.edits import Edit
from drystone.block.guards import Hold
from drystone.block.meta import Replacement
from drystone.block.predicates import Predicate
from drystone.errors import PlanExpiredError


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Merge(_Model):
    """Rewrite whole groups into one new group of `outputs` blocks, sorted, in one time chunk.

    `key` names the work, not the execution: the same inputs always give the same key. `bytes`, `rows`: of the inputs.
    """

    action: Literal["merge"] = "merge"
    key: str
    kind: Literal["overlap", "minor", "major", "rewrite"]
    chunk_start: int
    chunk_end: int
    granularity: Granularity
    label: str
    groups: tuple[str, ...]
    blocks: tuple[str, ...]
    outputs: int
    bytes: int
    rows: int
    reason: str


class Mark(_Model):
    """Schedule a block for deletion. `needs`: blocks that must be whole and unmarked for that to be right."""

    action: Literal["mark"] = "mark"
    ulid: str
    reason: str
    needs: tuple[str, ...] = ()


class Unmark(_Model):
    """Take a deletion mark away that nothing justifies."""

    action: Literal["unmark"] = "unmark"
    ulid: str
    reason: str


class Delete(_Model):
    """Remove a block's folder for good. `needs` as in Mark; `kind` says which rule allows it.

    `seen`: the fingerprint of the folder (`Folder.fingerprint`) that was judged, where another one must not be deleted.
    """

    action: Literal["delete"] = "delete"
    ulid: str
    kind: Literal["marked", "unfinished", "partial", "malformed"]
    bytes: int
    reason: str
    needs: tuple[str, ...] = ()
    seen: str = ""


class Taken(_Model):
    """What an edit takes of one visible group: at most `rows` rows, exactly so many if they were counted.

    `sources`: those that it takes rows of; empty for all of the group's. `whole`: every row of the group goes.
    """

    group: str
    blocks: tuple[str, ...]
    sources: tuple[str, ...] = ()
    whole: bool
    rows: int


class WriteEdit(_Model):
    """Write an edit: from then on readers leave out what it takes. `counted`: the rows of `taken` were counted."""

    action: Literal["edit"] = "edit"
    edit: Annotated[Edit, Field(discriminator="kind")]
    taken: tuple[Taken, ...] = ()
    counted: bool = False

    @property
    def rows(self) -> int:
        """How many rows it takes, or, as long as they are not counted, takes at most."""
        return sum(each.rows for each in self.taken)


class PlaceHold(_Model):
    """Keep removers and compactors off blocks, or off the whole stream, under a name."""

    action: Literal["hold"] = "hold"
    name: str
    hold: Hold


class ReleaseHold(_Model):
    """Take a hold away."""

    action: Literal["release"] = "release"
    name: str
    reason: str


class Swap(_Model):
    """The source `by` is to hold what stays of the rows of the source `root`; `rows` of it are to go."""

    root: str
    by: str
    rows: int


class Replace(_Model):
    """Replace sources that are read from a group: one new block for each, without the rows that `where` selects.

    `key` names the work: a replacement that is there already has the same. `bytes`, `rows`: of the group.
    """

    action: Literal["replace"] = "replace"
    key: str
    label: str
    group: str
    blocks: tuple[str, ...]
    swaps: tuple[Swap, ...]
    where: Predicate
    bytes: int
    rows: int
    reason: str


class Reupload(_Model):
    """Upload a file as the replacement of the source `root`; `by` is the id of its rows. Read at once.

    `retires`: the pair of both, and what told that the root itself stands for others.
    """

    action: Literal["reupload"] = "reupload"
    key: str
    root: str
    by: str
    retires: tuple[Replacement, ...]
    path: str
    sha256: str
    bytes: int
    reason: str


class Adopt(_Model):
    """Give blocks that a stream does not read a place in it: each a new ULID, together the group `as_group`.

    They lie in the stream `origin_stream` of the bucket `origin`. `source`: the id of the rows of a block of another
    tool, which is written anew with it; empty for Drystone's own, which is copied. `key` names the work.
    """

    action: Literal["adopt"] = "adopt"
    key: str
    origin: str
    origin_stream: str
    blocks: tuple[str, ...]
    as_group: str
    source: str = ""
    bytes: int
    rows: int
    reason: str


class Refill(_Model):
    """Parse the messages of an ingest plan anew, and replace its sources by what comes of it, each by itself.

    `ingest`: the plan's key without a suffix. Offsets are [start, end). `read_from`: where the messages are, as far as
    is known. `parser`: the digest of the one that must be used. `rows`: of the plan, dead letters included. `late`: how
    many of its sources came by earlier backfills, to the stream and to its dead letters. `key` names the work: the ids
    of the new sources follow from it, so that a retry gives the same.
    """

    action: Literal["refill"] = "refill"
    key: str
    label: str
    ingest: str
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int
    read_from: str
    parser: str
    late: tuple[int, int]
    rows: int
    bytes: int = 0
    reason: str


class Skip(_Model):
    """Something that the planner left alone, and why. `for_person`: it waits for a decision that is a person's."""

    name: str
    reason: str
    for_person: bool = False


Action = Merge | Mark | Unmark | Delete | WriteEdit | PlaceHold | ReleaseHold | Replace | Reupload | Adopt | Refill


class Plan(_Model):
    """Actions in the order in which they are to be done. Times are ms since the epoch."""

    version: Literal[1] = 1
    id: str
    stream: str
    kind: Literal[
        "minor",
        "major",
        "rewrite",
        "mark",
        "sweep",
        "retain",
        "retire",
        "erase",
        "hold",
        "release",
        "unmark",
        "repair",
        "backfill",
    ]
    created: int
    expires: int
    merges: tuple[Merge, ...] = ()
    unmarks: tuple[Unmark, ...] = ()
    marks: tuple[Mark, ...] = ()
    deletes: tuple[Delete, ...] = ()
    edits: tuple[WriteEdit, ...] = ()
    holds: tuple[PlaceHold, ...] = ()
    releases: tuple[ReleaseHold, ...] = ()
    replaces: tuple[Replace, ...] = ()
    reuploads: tuple[Reupload, ...] = ()
    adopts: tuple[Adopt, ...] = ()
    refills: tuple[Refill, ...] = ()
    skipped: tuple[Skip, ...] = ()
    batches: tuple[tuple[int, ...], ...] = ()
    """Which merges (of a repair: which actions) each mapped task executes, by their position."""

    @property
    def actions(self) -> tuple[Action, ...]:
        """All of them, in the order in which they are done: holds before what they guard, unmarks before marks."""
        asked: tuple[Action, ...] = (*self.holds, *self.releases, *self.edits)
        removals: tuple[Action, ...] = (*self.unmarks, *self.marks, *self.deletes)
        return (*asked, *self.merges, *removals, *self.replaces, *self.reuploads, *self.adopts, *self.refills)

    @property
    def digest(self) -> str:
        """A name for exactly this plan, which an approval is bound to: 16 hexadecimal digits."""
        return hashlib.sha256(self.to_json()).hexdigest()[:16]

    def check(self, now: int) -> None:
        """Raise PlanExpiredError if the plan is too old to be acted on."""
        if now >= self.expires:
            msg = f"plan {self.id} of stream {self.stream} expired {(now - self.expires) / 1000:.0f} s ago."
            raise PlanExpiredError(msg, "Plan again; plan_ttl sets how long a plan holds.")

    def to_json(self) -> bytes:
        """Return the bytes of the plan's object."""
        return self.model_dump_json(indent=1).encode()


def merge_key(kind: str, granularity: str, outputs: int, blocks: tuple[str, ...]) -> str:
    """Return the idempotency key of a merge."""
    text = "|".join((kind, granularity, str(outputs), *sorted(blocks)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]
