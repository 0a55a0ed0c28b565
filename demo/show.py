"""What the demo shows: a line whenever something happens, and in the end a table and the proof."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from flights import Truth
from rich.console import Console
from rich.table import Table
from stages import Stage

from drystone.testing.airflow_rest import Task
from drystone.testing.wall_time import Shares

console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
_BEGUN = time.monotonic()
_SIGNS = {"success": "[green]done[/]", "failed": "[red]failed[/]", "deferred": "waits without a worker slot"}
_SIGNS |= {"running": "runs", "up_for_retry": "[yellow]will be tried again[/]", "skipped": "has nothing to do"}
_SIGNS |= {"upstream_failed": "[red]not run[/]"}


def say(text: str) -> None:
    """Print a line with the time since the start."""
    seconds = int(time.monotonic() - _BEGUN)
    console.print(f"[dim]{seconds // 60}:{seconds % 60:02d}[/]  {text}")


class Progress:
    """Says once when a task of a run begins, waits, or ends."""

    def __init__(self, name: str) -> None:
        """`name`: how the run is called."""
        self._name = name
        self._told: dict[tuple[str, int], str | None] = {}

    def tell(self, tasks: Sequence[Task]) -> None:
        """Say what is new since the last time."""
        for task in sorted(tasks, key=lambda task: task.start or float("inf")):
            key = (task.task_id, task.map_index)
            if task.state in _SIGNS and self._told.get(key) != task.state:
                self._told[key] = task.state
                took = (
                    f" in {task.end - task.start:.0f} s" if task.start and task.end and task.state == "success" else ""
                )
                say(f"{self._name} · {task.name} {_SIGNS[task.state]}{took}")


def tell_stage(stage: Stage) -> None:
    """Say how the stream looks after a stage."""
    verdict = "[green]exact[/]" if stage.ok else "[red]WRONG[/]"
    say(
        f"[bold]after {stage.name}[/]: {stage.blocks_visible:,} blocks visible of {stage.blocks_total:,}, "
        f"{stage.rows:,} rows, checksum {stage.checksum}: {verdict}"
    )


def table(stages: Sequence[Stage], shares: Shares) -> None:
    """Print the stages, and where the wall time went."""
    shown = Table(title="The life of a block, after each stage")
    for heading in ("stage", "visible", "total", "marked", "files", "MB", "rows", "seconds", "rows read are"):
        shown.add_column(heading, justify="left" if heading in {"stage", "rows read are"} else "right")
    for stage in stages:
        numbers = (stage.blocks_visible, stage.blocks_total, stage.blocks_marked, stage.files)
        cells = [f"{number:,}" for number in numbers] + [
            f"{stage.bytes / 1e6:.1f}",
            f"{stage.rows:,}",
            f"{stage.seconds:.0f}",
        ]
        shown.add_row(stage.name, *cells, "exact" if stage.ok else "[red]WRONG[/]")
    console.print(shown)
    whole = shares.work + shares.spark_start + shares.delays + shares.airflow
    console.print(
        f"{whole:.0f} s of wall time: {shares.work:.0f} s work, {shares.spark_start:.0f} s Spark start, "
        f"{shares.delays:.0f} s syncDelay and deleteDelay, {shares.airflow:.0f} s Airflow."
    )


def proof(truth: Truth, reads: int, wrong: Sequence[str]) -> None:
    """Print what was proven, or what was not."""
    for line in wrong:
        console.print(f"[red]{line}[/]")
    if not wrong:
        console.print(
            f"[green]{truth.rows:,} rows, checksum {truth.checksum}[/]: the same after every stage and in "
            f"{reads} reads in the background, each computed from the rows."
        )
