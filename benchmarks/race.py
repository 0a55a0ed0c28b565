"""Contenders that do the same work, one after the other and again, so that what slows the machine slows all of them."""

from __future__ import annotations

import gc
import shutil
import statistics
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.table import Table


def _nothing(_: Path) -> None:
    """Prepare nothing."""


@dataclass(frozen=True, slots=True)
class Contender:
    """One way to do the work. Each call gets the same folder, empty before `prepare`; only `work` is timed.

    `answer` is computed afterwards from what `work` left or returned, and must be the same for all contenders of a race
    that have the same `kind`: the number of rows, a checksum. `goal`: how many times as long as the first contender
    this one is to take at least, by the design.
    """

    name: str
    work: Callable[[Path], object]
    answer: Callable[[Path, object], Hashable]
    prepare: Callable[[Path], None] = _nothing
    goal: float | None = None
    kind: str = ""


@dataclass(slots=True)
class Result:
    """How long a contender took, in seconds, round by round."""

    contender: Contender
    seconds: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of all rounds."""
        return statistics.median(self.seconds)


class DifferentAnswersError(Exception):
    """Contenders did not do the same work: their times mean nothing."""


def race(contenders: Sequence[Contender], repeat: int, folder: Path) -> list[Result]:
    """Run all contenders `repeat` times, in turn (A B A B …), in `folder`; return their times.

    Raises DifferentAnswersError if their answers differ.
    """
    results = [Result(contender) for contender in contenders]
    answers: dict[str, tuple[str, Hashable]] = {}
    for _ in range(repeat):
        for result in results:
            contender = result.contender
            seconds, answer = _once(contender, folder)
            result.seconds.append(seconds)
            print(f"  {contender.name}: {seconds:.2f} s", file=sys.stderr, flush=True)
            name, expected = answers.setdefault(contender.kind, (contender.name, answer))
            if answer != expected:
                msg = f"{name} answers {expected}, {contender.name} answers {answer}"
                raise DifferentAnswersError(msg)
    return results


def _once(contender: Contender, folder: Path) -> tuple[float, Hashable]:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        contender.prepare(folder)
        gc.collect()
        start = time.perf_counter()
        done = contender.work(folder)
        seconds = time.perf_counter() - start
        return seconds, contender.answer(folder, done)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def versus_first(title: str, results: Sequence[Result], *, first: str = "Drystone") -> Table:
    """Return a table of all results, each with its ratio to the first one and what became of its goal."""
    base = results[0].median
    table = Table(title, ("", "median s", "min to max", f"time / {first}", "goal"))
    for result in results:
        ratio = result.median / base
        shown = "1" if result is results[0] else f"{ratio:.2f}"
        table.rows.append((result.contender.name, *_times(result), shown, _verdict(result.contender.goal, ratio)))
    return table


def in_pairs(results: Sequence[Result]) -> list[tuple[str, ...]]:
    """Return a row for every two results, the other's time and ours: name, medians, ranges, and the ratio of ours."""
    rows: list[tuple[str, ...]] = []
    for other, ours in zip(results[::2], results[1::2], strict=True):
        ratio = f"{ours.median / other.median:.2f}"
        rows.append((ours.contender.name, *_times(other), *_times(ours), ratio))
    return rows


def _times(result: Result) -> tuple[str, str]:
    return f"{result.median:.2f}", f"{min(result.seconds):.2f} to {max(result.seconds):.2f}"


def _verdict(goal: float | None, ratio: float) -> str:
    if goal is None:
        return ""
    return f"≥ {goal:g}: {'met' if ratio >= goal else '**missed**'}"
