"""Where rows that were erased may be beside a stream's blocks: what a receipt says of each such place.

Source: the design, "Blocks: lifecycle verbs".
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import BaseModel, ValidationError

from drystone.block import keys
from drystone.block.edits import Erase
from drystone.block.receipt import Elsewhere
from drystone.block.states import Times
from drystone.bucket.below import folders_below
from drystone.bucket.protocol import Bucket, Versioned
from drystone.timeline.snapshot import Snapshot

_FILES = "files"
"""What lies beside the topics below `.ingest/<generation>/`."""


class _Prefix(BaseModel):
    prefix: str


def elsewhere(bucket: Bucket, snapshot: Snapshot, times: Times, edit: Erase) -> tuple[Elsewhere, ...]:
    """Return what there is to say of every place beside the blocks."""
    seen_by = edit.time + times.clock_skew + times.max_lag
    pins = [pin for pin in snapshot.pins if pin.expires > snapshot.taken_at and pin.created <= seen_by]
    owners = ", ".join(sorted({pin.owner for pin in pins}))
    long_reads = f"long reads that began before it may still see the rows: {owners}" if pins else "no older long read"
    return (
        Elsewhere(what="pins", state="open" if pins else "clear", note=long_reads),
        Elsewhere(what="clones", state="none", note="this version makes no clones of a stream"),
        *_of_messages(bucket, snapshot.stream),
        _exports(bucket, snapshot.stream),
        _versions(bucket),
        Elsewhere(what="the request", state="unknown", note="the edit and the log keep its predicate and its reason"),
    )


def _of_messages(bucket: Bucket, stream: str) -> tuple[Elsewhere, ...]:
    """Say where else the rows' messages are, or the files that they came from."""
    mine = set(_topics(bucket, stream))
    backups, dead = "backup streams", "dead-letter streams"
    if not mine:
        files = "they are not Drystone's: erase the rows there yourself"
        return (
            Elsewhere(what=backups, state="none", note="rows from files are not kept a second time"),
            Elsewhere(what=dead, state="none", note="a file with a bad row is refused as a whole"),
            Elsewhere(what="ingested files", state="unknown", note=files),
        )
    others = [name for name in folders_below(bucket, "") if name != stream and mine & set(_topics(bucket, name))]
    same = f"of the same topics in this bucket: {', '.join(others)}; " if others else "none in this bucket; "
    bad = "messages that could not be parsed are in the stream that `dead_letters` names: erase them there, too"
    topics = "the messages are in Kafka until its retention takes them"
    return (
        Elsewhere(what=backups, state="unknown", note=f"{same}erase the rows in each stream of these topics"),
        Elsewhere(what=dead, state="unknown", note=bad),
        Elsewhere(what="topics", state="unknown", note=topics),
    )


def _topics(bucket: Bucket, stream: str) -> Iterator[str]:
    """Yield the UUIDs of the topics of which a stream has plans."""
    for generation in folders_below(bucket, keys.ingests(stream)):
        found = folders_below(bucket, keys.kafka_topics(stream, int(generation)))
        yield from (name for name in found if name != _FILES)


def _exports(bucket: Bucket, stream: str) -> Elsewhere:
    what = "exported files"
    found: set[str] = set()
    for generation in folders_below(bucket, keys.exports(stream)):
        place = keys.exports(stream, int(generation))
        for name in folders_below(bucket, place):
            try:
                found.add(_Prefix.model_validate_json(bucket.get(f"{place}{name}/export.json")).prefix)
            except ValidationError:
                found.add("a prefix that nobody can read")
    if not found:
        return Elsewhere(what=what, state="none", note="the stream was never exported")
    where = ", ".join(f"{each}/" for each in sorted(found))
    note = f"files below {where} that were written before it may have the rows: remove these files yourself"
    return Elsewhere(what=what, state="unknown", note=note)


def _versions(bucket: Bucket) -> Elsewhere:
    what = "old object versions"
    kept = bucket.keeps_versions() if isinstance(bucket, Versioned) else False
    if kept is None:
        return Elsewhere(what=what, state="unknown", note="the store does not say whether it keeps any: ask its owner")
    if kept:
        note = "the store keeps what was deleted: remove old versions, or have its own rules do it"
        return Elsewhere(what=what, state="unknown", note=note)
    return Elsewhere(what=what, state="none", note="the store keeps none")
