"""Load: 100,000 blocks from eight appenders while the lifecycle runs, and what it costs to look at as many again."""

from __future__ import annotations

import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

from benchmarks.bench import Bench
from benchmarks.table import Table
from drystone.block import keys
from drystone.bucket import MemoryBucket
from drystone.testing.folders import STREAM

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

import load  # found by the line above: the tests run the same with fewer blocks

BLOCKS = 100_000
APPENDERS = 8
_MIB = 2**20
T = TypeVar("T")


def measure(bench: Bench) -> list[Table]:
    """Return two tables: what the load took, and what a second look took."""
    blocks = max(200, round(BLOCKS * bench.scale))
    return [_loaded(_apart(run, blocks)), _observed(*_apart(observe, blocks))]


def run(blocks: int) -> load.Loaded:
    """Put the load on a bucket in this process's memory."""
    return load.run(MemoryBucket("load"), blocks, APPENDERS, say=lambda line: print(f"  {line}", flush=True))


def observe(blocks: int) -> tuple[load.Observed, int]:
    """Look twice at a stream in this process's memory; return what it took, and the most memory of the process."""
    seen = load.observe_twice(MemoryBucket("observe"), blocks)
    return seen, load.peak_memory()


def _apart(work: Callable[[int], T], blocks: int) -> T:
    """Do it in a process of its own, whose memory is looked at."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, blocks).result()


def _loaded(found: load.Loaded) -> Table:
    table = Table(f"Load: {found.blocks:,} blocks, {APPENDERS} appenders, the lifecycle beside them", ("", "measured"))
    table.rows += [
        ("rows lost or read twice", f"{found.lost:,}"),
        ("seconds", f"{found.seconds:,.0f}"),
        ("rounds of the lifecycle, until it was at rest", f"{found.rounds:,}"),
        ("block folders at most", f"{found.most_folders:,}"),
        ("uploads that were too late, and done again", f"{found.late:,}"),
        ("uploads done twice", f"{found.twice:,}"),
        ("blocks written by merges", f"{found.outputs:,}"),
        ("blocks deleted", f"{found.deleted:,}"),
        ("requests of the appenders, per block", _requests(found.appends, found.blocks)),
        ("requests of the lifecycle, per block", _requests(found.lifecycle, found.blocks)),
        ("peak memory MiB, the bucket and all appenders included", f"{found.peak / _MIB:,.0f}"),
    ]
    table.notes += [
        "All in one process, without Spark: the bucket is in memory, appenders are threads, and merges wait for them.",
        "In each round it is checked that a visible block holds every source that was ready by then.",
    ]
    return table


def _requests(requests: Counter[str], blocks: int) -> str:
    return ", ".join(f"{verb} {number / blocks:.2f}" for verb, number in sorted(requests.items()))


def _observed(seen: load.Observed, peak: int) -> Table:
    table = Table(
        f"Looking at {seen.blocks:,} blocks, and again when {len(seen.new)} objects are new",
        ("", "s", "listings of blocks", "other listings", "GET"),
    )
    looks = (
        ("first", seen.first_seconds, seen.first_lists, seen.first_gets),
        ("again", seen.again_seconds, seen.again_lists, len(seen.again_gets)),
    )
    for name, seconds, lists, gets in looks:
        listings = lists.count(keys.blocks(STREAM))
        table.rows.append((name, f"{seconds:.1f}", f"{listings}", f"{len(lists) - listings}", f"{gets:,}"))
    table.notes += [
        "The other listings are of edits, pins, holds and the journal. On S3, a listing is a request per 1,000 keys.",
        f"Peak memory of the process, with the bucket of {2 * seen.blocks:,} objects in it: {peak / _MIB:,.0f} MiB.",
    ]
    return table
