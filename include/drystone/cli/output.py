"""How results look: tables for people, JSON for programs, both on stdout."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, is_dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from drystone.block.states import State
from drystone.config.durations import format_about

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WIDE = 4_096
"""Columns for whoever is no terminal: a file or a pipe gets every line whole."""
_STYLES: dict[str, str] = {
    State.FRESH: "cyan",
    State.HEALTHY: "green",
    State.HEALTHY_OVERLAPPED: "yellow",
    State.PARTIAL: "red",
    State.MALFORMED: "red",
    State.MARKED: "magenta",
    State.DELETING: "magenta",
    State.DELETABLE: "magenta",
}


def write_json(document: Any) -> None:
    """Print one JSON document; dataclasses inside become objects."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, default=_plain)
    sys.stdout.write("\n")


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> None:
    """Print a table. A column whose name begins with `>` is one of numbers, and is aligned to the right."""
    _write(_table(columns, title), rows)


def write_fields(fields: Iterable[tuple[str, object]], title: str = "") -> None:
    """Print names and values, one pair a line."""
    table = _table(("name", "value"), title)
    table.show_header = False
    _write(table, fields)


def write_line(text: str = "") -> None:
    """Print one line of text as it is."""
    _console().print(text, soft_wrap=True)


def moment(ms: int) -> str:
    """Return ms since the epoch as a person reads them: `2013-01-31 12:00:00Z`, with ms where there are any."""
    found = _EPOCH + timedelta(milliseconds=ms)
    return f"{found:%Y-%m-%d %H:%M:%S}{f'.{ms % 1000:03d}' if ms % 1000 else ''}Z"


def length(ms: int) -> str:
    """Return a duration as a person reads it."""
    return format_about(ms)


def _table(columns: Sequence[str], title: str) -> Table:
    table = Table(title=title or None, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for name in columns:
        table.add_column(name.removeprefix(">"), justify="right" if name.startswith(">") else "left", overflow="fold")
    return table


def _write(table: Table, rows: Iterable[Sequence[object]]) -> None:
    for row in rows:
        table.add_row(*(_cell(value) for value in row))
    console = _console()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as captured:
        console.print(table)
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in captured.get().splitlines()))


def _console() -> Console:
    width = None if sys.stdout.isatty() else _WIDE
    return Console(width=width, markup=False, emoji=False, highlight=False)


def _cell(value: object) -> Text:
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, int):
        return Text(f"{value:,}")
    text = "" if value is None else str(value)
    return Text(text, style=_STYLES.get(text, ""))


def _plain(value: object) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    if isinstance(value, frozenset | set):
        return sorted(value)
    return str(value)
