"""Verifying a stream: every block, and that every source is read from exactly one of them.

Source: the design, "Blocks: lifecycle verbs" (verify) and "Visibility: damage". Nothing is changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from drystone.block import keys
from drystone.block.edits import Expire
from drystone.block.folder import Folder
from drystone.block.marks import EXPIRED
from drystone.block.meta import META_FILE
from drystone.block.states import State, Times
from drystone.bucket.protocol import Bucket
from drystone.engine import audit
from drystone.engine.audit import Entry
from drystone.engine.findings import Finding, damage, problem
from drystone.engine.job import Workers
from drystone.engine.local import LocalWorkers
from drystone.engine.record import read_record
from drystone.engine.unreadable import judge
from drystone.engine.verify_block import verify_block
from drystone.errors import ObjectMissingError, UsageError
from drystone.timeline.cover import realm_of
from drystone.timeline.gone import find_gone
from drystone.timeline.snapshot import Snapshot
from drystone.timeline.timeline import Timeline, resolve, states
from drystone.tracker import ListingTracker, Tracker

_SOURCE = re.compile(r"source ([0-9A-Z]{26})")


@dataclass(frozen=True, slots=True)
class Verification:
    """What was looked at, and what is wrong. `at`: ms since the epoch. Counts are of the blocks that were checked."""

    stream: str
    at: int
    deep: bool
    blocks: int
    files: int
    bytes: int
    rows: int
    sources: int
    findings: tuple[Finding, ...]


def verify_stream(
    bucket: Bucket,
    stream: str,
    now: int,
    *,
    deep: bool = False,
    only: str | None = None,
    tracker: Tracker | None = None,
    workers: Workers | None = None,
) -> Verification:
    """Check a stream as it is seen from `now` (ms) on; `only`: the ULID of the one block; `workers`: who reads blocks.

    Checks each block that has a meta.json as `verify_block` does; that every source which was ever ready or ingested is
    read from exactly one block, unless an edit or a replacement took it away; and lists the timeline's damage and
    problems. A block that is deleted meanwhile is passed over. Raises UsageError if there is no such stream or block,
    BucketError if the store fails.
    """
    record = read_record(bucket, stream)
    # Read first: what is logged as uploaded must be in what is listed afterwards.
    log = [entry for entry in audit.read(bucket, stream) if entry.what == "upload"] if only is None else []
    snapshot = (tracker or ListingTracker(bucket, stream)).observe(now)
    timeline = judge(bucket, snapshot, resolve(snapshot, record.rules, now), record.generation)
    folders = [folder for folder in snapshot.folders.values() if only in {None, folder.ulid}]
    if only is not None and not folders:
        raise UsageError(f"stream {stream} has no block {only}.", "`drystone ls` lists them.")
    found: list[Finding] = []
    if only is None:
        found += [*_from_timeline(snapshot, timeline), *_check_groups(timeline, record.rules)]
        found += _check_owners(snapshot, timeline)
        found += _check_log(log, snapshot, timeline, record.rules)
        folders = [folder for folder in folders if folder.meta is not None]
    check = partial(_check_block, bucket, stream, deep=deep)
    workers = workers or LocalWorkers(lambda: now)
    shares = 0 if deep else min(len(folders), 4 * workers.parallelism)
    found += [each for findings in (workers.map(check, folders, shares) if folders else ()) for each in findings]
    return Verification(
        stream=stream,
        at=timeline.at,
        deep=deep,
        blocks=len(folders),
        files=sum(len(folder.files) for folder in folders),
        bytes=sum(folder.size for folder in folders),
        rows=sum(folder.meta.stats.num_samples for folder in folders if folder.meta is not None),
        sources=len(_sources_of(folders)),
        findings=tuple(found),
    )


def _check_block(bucket: Bucket, stream: str, folder: Folder, *, deep: bool) -> list[Finding]:
    try:
        return verify_block(bucket, stream, folder, deep=deep)
    except ObjectMissingError as error:
        try:
            bucket.head(keys.block(stream, folder.ulid, META_FILE))
        except ObjectMissingError:
            return []  # Its deletion began after we looked: it is no block any more.
        return [damage("missing-file", folder.ulid, error.key, f"{error.key} vanished while it was read.")]


def _from_timeline(snapshot: Snapshot, timeline: Timeline) -> Iterator[Finding]:
    """Yield what the timeline reports; `verify_block` says more about files that are missing."""
    damaged = {each.name for each in timeline.damage}
    for each in timeline.damage:
        if _is_unreadable(snapshot, each.name):
            yield damage("unreadable-meta", each.name, META_FILE, each.text)
        else:
            yield damage("missing-rows", each.name, "", f"{each.text}.")
    for odd in timeline.problems:
        folder, _, file = odd.name.partition("/")
        if odd.kind == "malformed" or odd.name in damaged:
            if _is_unreadable(snapshot, odd.name) and odd.name not in damaged:
                yield problem("unreadable-meta", odd.name, META_FILE, odd.text)
        elif folder in snapshot.folders:
            yield problem(odd.kind, folder, file, odd.text)
        elif file:
            yield problem(odd.kind, "", odd.name, odd.text)
        else:
            yield problem(odd.kind, odd.name, "", odd.text)


def _is_unreadable(snapshot: Snapshot, name: str) -> bool:
    folder = snapshot.folders.get(name)
    return folder is not None and bool(folder.meta_error)


def _check_groups(timeline: Timeline, times: Times) -> Iterator[Finding]:
    """Yield the groups that lack members for longer than an upload takes, though no row is missed."""
    damaged = {each.name for each in timeline.damage}
    for group in timeline.incomplete.values():
        if group.id not in damaged and group.touched + times.upload_timeout + times.sync_delay <= timeline.at:
            there = ", ".join(block.ulid for block in group.blocks)
            what = f"{len(group.members)} of {group.pattern.group_size} members are whole (blocks found: {there})."
            yield problem("incomplete-group", group.id, "", what)


def _check_owners(snapshot: Snapshot, timeline: Timeline) -> Iterator[Finding]:
    """Yield the sources of ready groups that are not read exactly once, though nothing took them away."""
    ready = [timeline.groups[name] for name in (*timeline.visible, *timeline.covered, *timeline.out)]
    gone = find_gone(ready, snapshot.edits).sources
    owners: Counter[tuple[tuple[int, int], str]] = Counter()
    for visible in timeline.visible.values():
        owners.update((realm_of(visible.group), source) for source in visible.group.sources - visible.excluded)
    for group in ready:
        if timeline.out.get(group.id) == EXPIRED:
            continue
        realm = realm_of(group)
        wrong = [source for source in sorted(group.sources - gone) if owners[realm, source] != 1]
        for source in wrong:
            what = f"source {source} of group {group.id} is read from {owners[realm, source]} groups, not from one."
            yield damage("owner", group.id, "", what)


def _check_log(log: Sequence[Entry], snapshot: Snapshot, timeline: Timeline, times: Times) -> Iterator[Finding]:
    """Yield the blocks that the audit log knows as whole, whose meta.json or whose rows are nowhere any more."""
    found = states(snapshot, timeline, times)
    for ulid in sorted({entry.block for entry in log}):
        if found.get(ulid) == State.PARTIAL:
            yield damage("missing-file", ulid, META_FILE, "meta.json is missing, and the block was whole once.")
    if any(isinstance(edit, Expire) for edit in snapshot.edits):
        return  # Expired rows leave no trace of their sources.
    known = _sources_of(snapshot.folders.values()) | find_gone(timeline.groups.values(), snapshot.edits).sources
    unreadable = {folder.ulid for folder in snapshot.folders.values() if folder.meta is None}
    for entry in log:
        source = _SOURCE.fullmatch(entry.why)
        settled = entry.when + times.sync_delay + times.max_lag <= timeline.at
        if source and settled and source[1] not in known and entry.block not in unreadable:
            known |= {source[1]}
            what = f"source {source[1]}, uploaded as block {entry.block} by run {entry.run}, is in no block any more."
            yield damage("missing-rows", entry.block, "", what)


def _sources_of(folders: Iterable[Folder]) -> frozenset[str]:
    return frozenset().union(*(folder.sources for folder in folders))
