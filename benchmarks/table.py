"""A measurement's result as tables: shown in a terminal, and written as Markdown for the pages that include it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table as RichTable

MADE = Path(os.environ.get("DRYSTONE_BENCH") or Path(__file__).parents[1] / "build" / "bench")
"""Where the Markdown goes, one file per measurement, and where data is kept meanwhile."""


@dataclass(slots=True)
class Table:
    """A titled table of text, with notes below. Columns after the first are aligned to the right."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def print(self, console: Console) -> None:
        """Show it in a terminal."""
        shown = RichTable(title=self.title, title_justify="left", title_style="bold")
        for position, name in enumerate(self.header):
            shown.add_column(name, justify="right" if position else "left")
        for row in self.rows:
            shown.add_row(*row)
        console.print(shown)
        for note in self.notes:
            console.print(f"  {note}", markup=False, highlight=False)
        console.print()

    def markdown(self) -> str:
        """Return it as Markdown."""
        rule = ["---", *("---:" for _ in self.header[1:])]
        lines = [f"**{self.title}**", "", *(_line(row) for row in (self.header, rule, *self.rows))]
        return "\n".join([*lines, "", *(f"* {note}" for note in self.notes)]).rstrip() + "\n"


def write(name: str, tables: list[Table], machine: str) -> Path:
    """Write a measurement's tables to build/bench/<name>.md, with the machine that they hold for."""
    MADE.mkdir(parents=True, exist_ok=True)
    path = MADE / f"{name}.md"
    path.write_text("\n".join([*(table.markdown() for table in tables), f"_{machine}_\n"]))
    return path


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
