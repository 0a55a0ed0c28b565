"""`drystone parse`."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from drystone.cli.app import app

CONFIG = """
version: 1
bucket: file:bucket
streams:
  dead: {labels: {a: b}, ingest: {kind: dead_letters}}
  flights:
    labels: {a: b}
    time_column: time
    sort_key: [time]
    schema: {time: timestamp, name: string, raw: binary, price: "decimal(6, 2)"}
    ingest:
      kind: kafka
      group: partition
      bootstrap_servers: broker:9092
      topics: flights
      dead_letters: dead
      parser: {format: json, split: [{column: name}]}
"""


def run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    """Run the command; return its exit code, and what it said."""
    (folder / "drystone.yaml").write_text(CONFIG)
    found = CliRunner().invoke(app, ["parse", *arguments, "--config", str(folder / "drystone.yaml")])
    return found.exit_code, found.stdout, found.stderr


def test_a_line_for_each_message(tmp_path: Path) -> None:
    """Its row and what it is split by, or why there is none; the exit code says whether all are rows."""
    lines = tmp_path / "lines"
    lines.write_bytes(b'{"name":"a b","time":"2023-01-01","raw":"\xc3\xa9","price":1.5}\r\n\n{"name":5}\n')
    code, out, _ = run(tmp_path, "flights", "--lines", str(lines))
    assert code == 1
    row = '{"time": "2023-01-01T00:00:00+00:00", "name": "a b", "raw": "c3a9", "price": "1.50"}'
    assert out.splitlines() == [
        f"{lines}:1: [name=a%20b] {row}",
        f"{lines}:2: error: DecodeError: Input data was truncated",
        f"{lines}:3: error: name: 5 is a number that does not fit string",
    ]
    found = json.loads(run(tmp_path, "flights", "--lines", "--json", str(lines))[1])
    assert found["messages"][0] == {"message": f"{lines}:1", "row": json.loads(row), "split": "name=a%20b"}
    assert found["messages"][2]["error"].startswith("name: 5")
    assert len(found["parser"]) == 32


def test_files_are_whole_messages(tmp_path: Path) -> None:
    """Without --lines, line ends are a part of the message; an empty file is an empty message."""
    for name, content in (("one", b"{\n}"), ("two", b"")):
        (tmp_path / name).write_bytes(content)
    assert run(tmp_path, "flights", str(tmp_path / "one"))[0] == 0
    assert run(tmp_path, "flights", str(tmp_path / "one"), str(tmp_path / "two"))[0] == 1
    assert run(tmp_path, "flights", "--lines", str(tmp_path / "two")) == (0, "", "")


def test_what_cannot_be_parsed_at_all(tmp_path: Path) -> None:
    """A missing file, an unknown stream, and one that parses nothing."""
    for arguments, said in [
        (("flights", str(tmp_path / "gone")), "gone cannot be read: No such file or directory."),
        (("other", str(tmp_path)), "no stream 'other'"),
        (("dead", str(tmp_path)), "the rows of this stream do not come from Kafka"),
    ]:
        code, _, err = run(tmp_path, *arguments)
        assert code == 2
        assert said in err
        assert len(err.splitlines()) == 1
