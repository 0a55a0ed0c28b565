"""`drystone export`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import yaml
from exports import HOUR, Bench, config, messages_of
from typer.testing import CliRunner

from drystone.bucket.memory import MemoryBucket
from drystone.cli.app import app
from drystone.testing.messages import Message
from drystone.testing.streams import ManualClock


@pytest.fixture
def bench() -> Bench:
    """A stream that was ingested two hours ago; its days are not to be finished, so Kafka is not asked."""
    clock = ManualClock(time.time_ns() // 1_000_000 - 2 * HOUR)
    return Bench(MemoryBucket(uuid4().hex, clock), clock, config(success=None, format="text"))


def run(bench: Bench, folder: Path, *words: str, export: dict[str, Any] | None) -> tuple[int, str, str]:
    """Run the command; return its exit code and what it says."""
    ingest = bench.config.ingest.model_dump(mode="json", include={"kind", "group", "bootstrap_servers", "topics"})
    more = {} if export is None else {"export": {"prefix": "logs", **export}}
    document = {
        "version": 1,
        "bucket": bench.plain.url,
        "streams": {"raw": {"labels": {"a": "b"}, "ingest": ingest | more}},
    }
    file = folder / "drystone.yaml"
    file.write_text(yaml.safe_dump(document))
    said = CliRunner().invoke(app, ["export", "raw", *words, "--config", str(file)])
    return said.exit_code, said.stdout, said.stderr


PLAIN = {"success": None, "format": "text"}


def test_it_exports_what_is_new(bench: Bench, tmp_path: Path) -> None:
    """A dry run only tells; only topics that fit; once more it finds nothing to do."""
    bench.ingest([Message(number, bench.clock(), None, b"m%d" % number) for number in range(4)])
    code, out, _ = run(bench, tmp_path, "--dry-run", export=PLAIN)
    assert (code, bench.objects()) == (0, {})
    assert "Would export 1 plans" in out
    assert "flights-0 [0, 4)" in out
    code, out, _ = run(bench, tmp_path, "--topics", "trains", "--json", export=PLAIN)
    assert (code, json.loads(out)["summary"]["plans"]) == (0, 0)
    code, out, _ = run(bench, tmp_path, export=PLAIN)
    assert code == 0
    assert "4 messages of 1 plans in 1 files, 1 of them new" in out
    assert list(bench.objects().values()) == [b"m0\nm1\nm2\nm3\n"]
    code, out, _ = run(bench, tmp_path, "--json", export=PLAIN)
    assert (code, json.loads(out)["summary"]["plans"]) == (0, 0)


def test_what_failed_is_said_and_is_exit_code_1(bench: Bench, tmp_path: Path) -> None:
    """A message with a newline, as text."""
    bench.ingest(messages_of(3))
    code, out, _ = run(bench, tmp_path, export=PLAIN)
    assert code == 1
    assert "failed: flights-0 [0, 7): the message at offset 0 has a newline" in out


@pytest.mark.parametrize(
    ("export", "words", "said"),
    [(None, [], "stream raw has no export"), (PLAIN, ["--topics", "("], "is no regular expression")],
)
def test_wrong_use(bench: Bench, tmp_path: Path, export: dict[str, Any] | None, words: list[str], said: str) -> None:
    """One line, with what to do."""
    code, _, err = run(bench, tmp_path, *words, export=export)
    assert code == 2
    assert said in err
    assert len(err.splitlines()) == 1
