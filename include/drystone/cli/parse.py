"""`drystone parse`: how a stream's parser sees messages that lie in files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

from drystone import clock
from drystone.cli import exits, options, output
from drystone.cli.sinks import plain
from drystone.config.load import load
from drystone.errors import UsageError
from drystone.ingest.kafka.messages import MESSAGES
from drystone.ingest.parsers.protocol import Parsed
from drystone.ingest.parsers.registry import parser_of

app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of one message each.", show_default=False)]
Lines = Annotated[bool, typer.Option("--lines", help="Every line of a file is a message, without its line end.")]


@app.command(epilog=exits.MEANING)
def parse(
    stream: options.Stream,
    files: Files,
    *,
    lines: Lines = False,
    config: options.Config = None,
    as_json: options.AsJson = False,
) -> None:
    """Show what a stream's parser makes of messages, one line each; exit code 1 if any of them gives no row.

    Neither Kafka nor the bucket is asked: each message counts as written now, the first one with offset 0.
    """
    loaded = load(config)
    parser = parser_of(loaded.stream(stream), loaded.path.parent)
    named = [each for file in files for each in _messages(file, lines=lines)]
    now = clock.system()
    parsed = parser.parse(_batch([value for _, value in named], now), now)
    found = _found([name for name, _ in named], parsed)
    if as_json:
        output.write_json({"stream": stream, "parser": parser.digest, "messages": found})
    else:
        for each in found:
            output.write_line(_line(each))
    raise typer.Exit(exits.PROBLEMS if parsed.errors else 0)


def _messages(file: Path, *, lines: bool) -> list[tuple[str, bytes]]:
    """Return the messages of a file, each with a name for people."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.") from None
    if not lines:
        return [(str(file), content)]
    parts = content.removesuffix(b"\n").split(b"\n") if content else []
    return [(f"{file}:{number}", part.removesuffix(b"\r")) for number, part in enumerate(parts, 1)]


def _batch(values: Sequence[bytes], now: int) -> pa.RecordBatch:
    count = len(values)
    found: dict[str, Any] = {
        "topic": [""] * count,
        "partition": [0] * count,
        "offset": range(count),
        "timestamp": [now * 1000] * count,
        "value": values,
    }
    arrays = [pa.array(found.get(field.name, [None] * count), field.type) for field in MESSAGES]
    return pa.RecordBatch.from_arrays(arrays, schema=MESSAGES)


def _found(names: Sequence[str], parsed: Parsed) -> list[dict[str, Any]]:
    """Return of each message its name, and its row with what it is split by, or why it has none."""
    splits = parsed.splits.to_pylist() if parsed.splits is not None else [""] * parsed.rows.num_rows
    rows = zip(parsed.positions.to_pylist(), parsed.rows.to_pylist(), splits, strict=True)
    found: dict[int, dict[str, Any]] = {position: {"error": reason} for position, reason in parsed.errors}
    for position, row, split in rows:
        shown = {name: plain(value) for name, value in row.items()}
        found[position] = {"row": shown, "split": split} if split else {"row": shown}
    return [{"message": name, **found[position]} for position, name in enumerate(names)]


def _line(found: dict[str, Any]) -> str:
    if "error" in found:
        return f"{found['message']}: error: {found['error']}"
    split = f" [{found['split']}]" if "split" in found else ""
    return f"{found['message']}:{split} {json.dumps(found['row'], ensure_ascii=False)}"
