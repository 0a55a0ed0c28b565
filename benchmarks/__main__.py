"""`python -m benchmarks [names …]`: measure, print the tables, and write them to build/bench."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path

from rich.console import Console

from benchmarks import bench, pages, table

NAMES = (
    "compaction",
    "major",
    "ingest",
    "kafka",
    "reading",
    "timeline",
    "memory",
    "load",
    "thanos",
    "fleet",
    "lifecycle",
)
"""The modules of this package that measure: each has `measure(bench) -> list[Table]`."""
QUICK = 0.1


def main(arguments: Sequence[str] | None = None, show: Callable[[str], object] = print) -> None:
    """Run the measurements that the command line names, by default all."""
    options = _parse(arguments)
    if options.names == ["insert"]:
        show("\n".join(f"written: {page}" for page in pages.insert()))
        return
    scale = options.scale or (QUICK if options.quick else 1.0)
    repeat = options.repeat or (1 if options.quick else 3)
    console = Console(width=max(100, Console().width))
    for name in options.names or NAMES:
        started = time.monotonic()
        with bench.opened(scale, repeat, options.cores, table.MADE / "work") as run:
            tables = import_module(f"benchmarks.{name}").measure(run)
            machine = run.machine
        for each in tables:
            each.print(console)
        path = table.write(name, tables, machine)
        show(f"{path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path}: {machine}")
        show(f"{name} took {time.monotonic() - started:.0f} s\n")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    choices = (*NAMES, "insert")
    parser.add_argument("names", nargs="*", help=f"{', '.join(NAMES)}; or insert: put the tables into the pages")
    parser.add_argument("--scale", type=float, help="size of the data: 1 (default) is what the design names")
    parser.add_argument("--repeat", type=int, help="rounds of each race (default 3)")
    parser.add_argument("--cores", type=int, default=2, help="processors for everybody (default 2)")
    parser.add_argument("--quick", action="store_true", help=f"the same as --scale {QUICK} --repeat 1")
    options = parser.parse_args(arguments)
    wrong = [name for name in options.names if name not in choices]
    if wrong or ("insert" in options.names and len(options.names) > 1):
        parser.error(f"no such measurement: {', '.join(wrong or options.names)}; there are {', '.join(choices)}")
    return options


if __name__ == "__main__":
    main()
