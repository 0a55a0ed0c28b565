"""`python -m drystone.testing.simulate`: lives of a stream by the thousand, one again, or the table of planted bugs."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from drystone.testing.simulation.life import HOURS, Lived, live
from drystone.testing.simulation.plants import PLANTS, planted
from drystone.testing.simulation.shrink import shrink
from drystone.testing.simulation.summary import Summary

_OFTEN = 250
"""After so many lives it says how far it is."""
_BEGIN, _END = "<!-- simulation: plants -->", "<!-- /simulation -->"


def run(seed: int, plant: str = "", hours: int = HOURS, keep: Sequence[int] | None = None) -> Lived:
    """Let one stream live, perhaps with a planted bug."""
    with planted(plant):
        return live(seed, hours, keep)


def seeds_until_caught(plant: str, most: int, hours: int = HOURS, first: int = 0) -> tuple[int, str]:
    """Return how many seeds, from `first` on, it takes until a life notices the bug (0: more than `most`), and how."""
    for seed in range(first, first + most):
        lived = run(seed, plant, hours)
        if lived.failure:
            return seed - first + 1, lived.failure
    return 0, ""


def command(lived: Lived, plant: str, hours: int, keep: Sequence[int] | None = None) -> str:
    """Return the line that lives this life again."""
    parts = [f"python -m drystone.testing.simulate --seed {lived.seed}"]
    parts += [f"--plant {plant}"] if plant else []
    parts += [f"--hours {hours}"] if hours != HOURS else []
    parts += [f"--keep {','.join(map(str, keep)) or 0}"] if keep is not None else []
    return " ".join(parts)


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments say; return 0 if nothing failed, and everything was exercised that has to be."""
    options = _parse(arguments)
    if options.plants:
        return _table(options.most, options.hours, options.page, options.processes)
    if options.seed is not None:
        return _one(options)
    return _many(options)


def _one(options: argparse.Namespace) -> int:
    keep = None if options.keep is None else [int(number) for number in options.keep.split(",") if number]
    lived = run(options.seed, options.plant, options.hours, keep)
    for name, times in sorted(lived.tally.items()):
        _say(f"{times:>8,}  {name}")
    if not lived.failure:
        _say(f"Seed {options.seed}: {lived.hours} hours without a broken invariant.")
        return 0
    _say(lived.failure)
    if keep is None:
        _say(f"As little as possible of it: {_shrunk(lived, options.plant, options.hours, options.attempts)}")
    return 1


def _shrunk(lived: Lived, plant: str, hours: int, attempts: int) -> str:
    kind = lived.failure.split(":")[:2]

    def fails(keep: Sequence[int]) -> bool:
        return run(lived.seed, plant, hours, keep).failure.split(":")[:2] == kind

    return command(lived, plant, hours, shrink(lived.unusual, fails, attempts))


def _many(options: argparse.Namespace) -> int:
    summary = Summary()
    seeds = range(options.first, options.first + options.seeds)
    for lived in _lives(seeds, options.plant, options.hours, options.processes):
        summary.add(lived)
        if summary.lives % _OFTEN == 0 and summary.lives < len(seeds):
            _say(f"{summary.lives:,} of {len(seeds):,} lives, {len(summary.failed)} failed.")
        if lived.failure:
            _say(f"{lived.failure}\n  {command(lived, options.plant, options.hours)}")
    for line in summary.lines():
        _say(line)
    return 1 if summary.failed or summary.missing else 0


def _lives(seeds: Sequence[int], plant: str, hours: int, processes: int) -> Iterator[Lived]:
    one = partial(run, plant=plant, hours=hours)
    if processes == 1:
        yield from map(one, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(one, seeds, chunksize=8)


def _table(most: int, hours: int, page: Path | None, processes: int) -> int:
    lines = ["| planted | rule it breaks | seeds until caught | caught by |", "|---|---|---|---|"]
    missed = False
    with ProcessPoolExecutor(processes) as pool:
        found = pool.map(partial(seeds_until_caught, most=most, hours=hours), PLANTS)
        for plant, (seeds, failure) in zip(PLANTS.values(), found, strict=True):
            missed |= not seeds
            how = failure.removeprefix("BrokenInvariantError: ").split(":")[0]
            caught = f"invariant {how}" if how.isdigit() else how or "none"
            lines.append(f"| `{plant.name}` | {plant.rule} | {seeds or f'more than {most}'} | {caught} |")
            _say(lines[-1])
    if page is not None:
        before, _, rest = page.read_text().partition(_BEGIN)
        _, _, after = rest.partition(_END)
        page.write_text("\n".join([before + _BEGIN, *lines, _END + after]))
    return int(missed)


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m drystone.testing.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many lives")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="how many at a time")
    parser.add_argument("--seed", type=int, help="this life only, shrunk if it fails")
    parser.add_argument(
        "--keep", help="with --seed: the numbers of the unusual decisions to keep, as a failure gave them"
    )
    parser.add_argument("--attempts", type=int, default=400, help="with --seed: how often to try to shrink a failure")
    parser.add_argument("--hours", type=int, default=HOURS, help="how long everybody is at work in a life")
    parser.add_argument("--plant", default="", choices=["", *PLANTS], help="a bug to plant")
    parser.add_argument("--plants", action="store_true", help="the table: each planted bug, and how soon it is caught")
    parser.add_argument("--most", type=int, default=300, help="with --plants: the most seeds to try")
    parser.add_argument("--page", type=Path, help="with --plants: the page to put the table into")
    return parser.parse_args(arguments)


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - what it found is for whoever started it


if __name__ == "__main__":
    sys.exit(main())
