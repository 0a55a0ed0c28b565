"""The conformance probe: whether a store does what Drystone relies on, tried out in a folder of its own.

Several self-hosted stores get conditional writes wrong, and none of them says so. Source: the design, "Libraries".
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from drystone import clock, ulids
from drystone.block import keys
from drystone.bucket import checks
from drystone.bucket.bench import Bench, Found
from drystone.bucket.lag import lag
from drystone.bucket.probed import Finding, ProbeReport
from drystone.bucket.protocol import Bucket
from drystone.errors import BucketError, DrystoneError, ObjectMissingError

WINDOW = 10_000
"""How long (ms) the probe waits for a change to be seen before it calls the store broken."""
KEYS = 1_200
"""How many objects are listed and deleted at once: more than the 1,000 of a page of S3."""
ABANDONED_AFTER = 24 * 3_600_000
"""What a probe left behind that began this long ago (ms) belongs to nobody any more."""
_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that Drystone relies on: its check, and what Drystone does where the check fails."""

    name: str
    check: Callable[[Bench], Found]
    without: str
    needed: bool = True


CAPABILITIES = (
    Capability(
        "lag",
        lag,
        "Refused: readers, compactors and the remover wait max_lag for others' changes to show, and need a bound.",
    ),
    Capability(
        "create-only",
        checks.create_only,
        "Refused: leases, plans, edits and uploads each need one winner; without it two removers work at once, and "
        "one upload overwrites another.",
    ),
    Capability(
        "upload",
        checks.upload,
        "Refused: the files of blocks are uploaded in parts, and none may replace another or be seen half written.",
    ),
    Capability(
        "order",
        checks.order,
        "Refused: blocks are told apart while a listing goes by; out of order, one would be taken for several.",
    ),
    Capability(
        "unicode-order",
        checks.unicode_order,
        "Drystone goes on: its own keys are ASCII. A listing that comes across others, wrongly sorted, fails.",
        needed=False,
    ),
    Capability(
        "start-after",
        checks.start_after,
        "Refused: observing skips what it knows by listing from a key; blocks would be missed or read twice.",
    ),
    Capability(
        "paging",
        checks.paging,
        "Refused: a listing that loses or doubles keys between its pages hides blocks, which readers take for rows "
        "that are not there.",
    ),
    Capability(
        "batch-delete",
        checks.batch_delete,
        "Refused: a deletion that is reported as done and was not leaves parts of blocks behind for ever.",
    ),
    Capability(
        "ranges",
        checks.ranges,
        "Refused: readers fetch footers and row groups by range.",
    ),
    Capability(
        "write-id",
        checks.write_id,
        "Refused: after a lost answer nobody could tell whose object is there, and no large file could be confirmed.",
    ),
    Capability(
        "clock",
        checks.skew,
        "Drystone goes on: clock_skew of the streams must be larger than this, or the clocks be set.",
        needed=False,
    ),
)
"""In this order: the checks that follow wait as long as the first one saw the store lag."""


def probe(
    bucket: Bucket,
    *,
    number_of_keys: int = KEYS,
    window: int = WINDOW,
    only: Collection[str] = (),
    now: clock.Clock = clock.system,
    pause: Callable[[float], None] = time.sleep,
) -> ProbeReport:
    """Try out everything that Drystone relies on, and return what was found; nothing of it stays in the bucket.

    `number_of_keys`: for listing and batch deletion. `window`: ms. `only`: names of capabilities, by default all.
    Who races or looks is a copy of `bucket`, with connections of its own. Raises what the store raises where not
    even a plain write and read succeed: wrong credentials, no such bucket.
    """
    begun = now()
    prefix = f"{keys.PROBING}{ulids.new(begun)}/"
    bench = Bench(bucket, partial(copy.deepcopy, bucket), prefix, number_of_keys, window, now, pause)
    bench.put("hello", b"hello")
    _remove_abandoned(bucket, begun)
    try:
        findings = tuple(_try(each, bench) for each in CAPABILITIES if not only or each.name in only)
    finally:
        bench.clean()
    return ProbeReport(bucket=bucket.url, time=begun, lag=bench.seen_lag, skew=bench.seen_skew, findings=findings)


def keep(bucket: Bucket, report: ProbeReport) -> None:
    """Keep the report in the bucket, in place of an earlier one: from now on it decides whether jobs run on it."""
    bucket.put(keys.PROBE, report.to_json())


def _try(capability: Capability, bench: Bench) -> Finding:
    try:
        found = capability.check(bench)
    except ObjectMissingError as error:
        found = Found("fails", f"an object that was written is not there: {error.key}")
    except BucketError as error:
        found = Found("unknown" if error.retryable else "fails", f"the store failed: {error.message.rstrip('.')}")
    except DrystoneError as error:
        found = Found("fails", error.message.rstrip("."))
    return Finding(
        capability=capability.name,
        result=found.result,
        found=found.text,
        without="" if found.result == "ok" else found.advice or capability.without,
        refused=capability.needed and found.result == "fails",
    )


def _remove_abandoned(bucket: Bucket, now: int) -> None:
    """Remove what probes left that were killed long ago."""
    gone = [
        info.key
        for info in bucket.list(keys.PROBING)
        if ulids.is_canonical(name := info.key.removeprefix(keys.PROBING).partition("/")[0])
        and ulids.time_of(name) < now - ABANDONED_AFTER
    ]
    for start in range(0, len(gone), _BATCH):
        bucket.delete(gone[start : start + _BATCH])
