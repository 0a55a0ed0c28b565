"""The timeline of a great many blocks: how long it takes to build and to look up one hour, and its memory."""

from __future__ import annotations

import gc
import multiprocessing
import random
import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.bench import Bench
from benchmarks.table import Table
from drystone import ulids
from drystone.block.states import Times
from drystone.timeline.blocks import Block
from drystone.timeline.timeline import Timeline, resolve_blocks

SIZES = (10_000, 100_000, 1_000_000)
HOURS = 10_000
_HOUR = 3_600_000
_BEGIN = 1_600_000_000_000
_NOW = 2_000_000_000_000
_LOOKUPS = 200
_MIB = 2**20
_PAGES = 4096
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Measured:
    """One size: seconds of each build, seconds of the first lookup and the median of the others, bytes of memory."""

    builds: tuple[float, ...]
    first_lookup: float
    lookup: float
    blocks_bytes: int
    timeline_bytes: int
    visible: int


def measure(bench: Bench) -> list[Table]:
    """Return one table: a row per size."""
    table = Table(
        "Timeline: a tenth of the blocks are compactions of five others each",
        ("blocks", "visible", "build: median s", "min to max", "first lookup ms", "lookup ms", "blocks MiB", "+ MiB"),
    )
    for size in SIZES:
        # A process of its own: what it takes is the timeline's.
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
            found = pool.submit(measure_size, max(100, round(size * bench.scale)), bench.repeat).result()
        table.rows.append(_row(round(size * bench.scale), found))
    table.notes += [
        f"A lookup yields all that is visible in one hour of {HOURS:,}; the first one sorts what is visible by time.",
        "+ MiB: what the timeline takes beside the blocks' own metadata.",
        "Not measured here, Druid's published figures: 1,000,000 segments built in 0.76 s cold and 0.12 s warm.",
        "Of Druid too: a lookup of one hour takes 0.2 ms of 10,000 intervals, 16 ms of 100,000.",
    ]
    return [table]


def measure_size(size: int, repeat: int) -> Measured:
    """Measure in this process, whose memory is looked at."""
    before = _resident()
    blocks = make_blocks(size)
    gc.collect()
    held = _resident()
    builds: list[float] = []
    for _ in range(repeat):
        timeline = None
        gc.collect()
        seconds, timeline = _timed(lambda: resolve_blocks(blocks, (), Times(), _NOW))
        builds.append(seconds)
    assert timeline is not None  # noqa: S101 - repeat is at least 1
    gc.collect()
    grown = _resident() - held
    lookups = [_timed(lambda number=number: _look_up(timeline, number))[0] for number in range(_LOOKUPS)]  # type: ignore[misc]
    return Measured(
        tuple(builds), lookups[0], statistics.median(lookups[1:]), held - before, grown, len(timeline.visible)
    )


def make_blocks(size: int) -> list[Block]:
    """Return nine tenths first-generation blocks spread over the hours, and one tenth compactions of five of those."""
    dice = random.Random(1)
    singles = size * 9 // 10
    step = singles / max(1, size - singles)
    blocks: list[Block] = []
    for number in range(singles):
        moment, hour = _BEGIN + number * 37, number * HOURS // singles * _HOUR
        ulid, source = ulids.new(moment + 5, dice.randbytes), ulids.new(moment, dice.randbytes)
        blocks.append(Block(ulid, hour, hour + _HOUR, frozenset({source}), moment + 9, ulid, size=1000, rows=10))
    for number in range(size - singles):
        inputs = blocks[int(number * step) : min(int(number * step) + 5, singles)]
        moment = _BEGIN + singles * 37 + number
        ulid, sources = ulids.new(moment, dice.randbytes), frozenset().union(*(block.sources for block in inputs))
        low, high = min(block.min_time for block in inputs), max(block.max_time for block in inputs)
        blocks.append(Block(ulid, low, high, sources, moment, ulid, level=2))
    return blocks


def _look_up(timeline: Timeline, number: int) -> int:
    start = number * 47 % HOURS * _HOUR
    return sum(1 for _ in timeline.visible.between(start, start + _HOUR))


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    start = time.perf_counter()
    done = work()
    return time.perf_counter() - start, done


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGES


def _row(size: int, found: Measured) -> tuple[str, ...]:
    return (
        f"{size:,}",
        f"{found.visible:,}",
        f"{statistics.median(found.builds):.2f}",
        f"{min(found.builds):.2f} to {max(found.builds):.2f}",
        f"{found.first_lookup * 1000:.1f}",
        f"{found.lookup * 1000:.3f}",
        f"{found.blocks_bytes / _MIB:.0f}",
        f"{found.timeline_bytes / _MIB:.0f}",
    )
