"""Drystone's covering beside the real Thanos': how often they agree, and why they do not. Needs Go."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.table import Table

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

from thanos_comparison import THANOS_ERRS, Counts, Why, compare_both  # found by the line above

STREAMS = 20_000


def measure(bench: Bench) -> list[Table]:
    """Return one table: a row for each reason why the two differ."""
    table = Table(
        "Thanos 0.42.4 and Drystone on random streams: which blocks are superseded",
        ("", "in Thanos' words", "in Drystone's words"),
    )
    both = compare_both(max(1, round(STREAMS * bench.scale)))
    table.rows += [
        ("streams", *(f"{each.streams:,}" for each in both)),
        ("blocks", *(f"{each.blocks:,}" for each in both)),
        ("both remove", *(f"{each.both_remove:,}" for each in both)),
        ("both keep", *(f"{each.both_keep:,}" for each in both)),
        *((_named(why), *(_number(each, why) for each in both)) for why in Why),
        ("differences without a reason", *(f"{len(each.unexplained):,}" for each in both)),
        ("streams in which Thanos halts: blocks overlap", *(f"{each.halted:,}" for each in both)),
    ]
    table.notes += [f"No rule says why: {each[:200]}" for counts in both for each in counts.unexplained[:3]]
    return [table]


def _named(why: Why) -> str:
    return f"{'Thanos errs' if why in THANOS_ERRS else 'no word for it'}: {why}"


def _number(counts: Counts, why: Why) -> str:
    return f"{counts.differences[why]:,}" if why in counts.differences else "none"
