"""docs/runbook.md is tried: in a stream to which just that has happened, each section's commands do what it says."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import flights
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import yaml
from runbook import Step, missing, sections
from typer.testing import CliRunner

from drystone import clock, ulids
from drystone.block import keys
from drystone.block.guards import Lease
from drystone.block.meta import META_FILE, Meta
from drystone.bucket import LocalBucket
from drystone.cli import acting
from drystone.cli.app import app
from drystone.config.load import load
from drystone.engine import audit
from drystone.engine.audit import Entry
from drystone.engine.pacer import ThreadPacer
from drystone.testing.streams import ManualClock, build_block, source_id, with_source, write_record

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "runbook.md").read_text()
STREAM = "flights"
HOUR = 3_600_000
DAY = 24 * HOUR
CHUNK = "chunks/000001.parquet"


@dataclass
class World:
    """A folder with drystone.yaml, a bucket, a backup of it, and what commands may name by a variable."""

    folder: Path
    bucket: LocalBucket
    clock: ManualClock
    blocks: dict[str, Meta] = field(default_factory=dict)
    tables: dict[str, pa.Table] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    planned_at: int = 0
    """When every source was planned: the same, however far the clock is put."""

    def __post_init__(self) -> None:
        """Fix the time of planning."""
        self.planned_at = self.clock.now // DAY * DAY

    def upload(self, name: str, source: str = "") -> Meta:
        """Upload the rows of a name as a block, of the source of that name or of another one; and log it."""
        planned = source_id(self.planned_at, source or name)
        config = load(self.folder / "drystone.yaml").stream(STREAM)
        rows = with_source(self.tables[source or name], planned)
        meta = build_block(self.bucket, STREAM, config, rows, self.clock)
        audit.append(self.bucket, STREAM, [Entry("upload", meta.ulid, f"source {planned}", "x", self.clock.now)], 1)
        self.blocks[name] = meta
        self.clock.advance(1000)
        return meta

    def file(self, name: str, file: str = "") -> Path:
        """A file of a block."""
        return self.bucket.path(keys.block(STREAM, self.blocks[name].ulid, META_FILE)).parent / file

    def name(self, name: str) -> None:
        """Let commands say $BLOCK and $SOURCE for a block."""
        (source,) = self.blocks[name].compaction.sources
        self.variables |= {"BLOCK": self.blocks[name].ulid, "SOURCE": source}


@pytest.fixture(scope="module")
def lived_in(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Three blocks of New Year's Day 2013, one per airport, uploaded two hours ago; and a backup of the bucket."""
    folder = tmp_path_factory.mktemp("runbook")
    document = yaml.safe_load((ROOT / "demo/drystone.yaml").read_text())
    stream = {name: value for name, value in document["streams"][STREAM].items() if name != "times"}
    document |= {"bucket": "file:bucket", "streams": {STREAM: stream}}
    (folder / "drystone.yaml").write_text(yaml.safe_dump(document))
    time_source = ManualClock(time.time_ns() // 1_000_000 - 2 * HOUR)
    world = World(folder, LocalBucket(folder / "bucket", time_source), time_source)
    write_record(world.bucket, STREAM, load(folder / "drystone.yaml").stream(STREAM))
    data = flights.with_event_time(flights.month(flights.load(), 1))
    first = data.filter(pc.equal(data["day"], 1))
    for airport in ("EWR", "JFK", "LGA"):
        world.tables[airport] = first.filter(pc.equal(first["origin"], airport))
        world.upload(airport)
    shutil.copytree(folder / "bucket", folder / "backup")
    return world


@pytest.fixture
def world(lived_in: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A copy of it, to work in."""
    shutil.copytree(lived_in.folder, tmp_path, dirs_exist_ok=True)
    moment = ManualClock(lived_in.clock.now)
    found = World(tmp_path, LocalBucket(tmp_path / "bucket", moment), moment, dict(lived_in.blocks), lived_in.tables)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRYSTONE_CONFIG", raising=False)
    yield found
    subprocess.run(["umount", tmp_path / "bucket"], capture_output=True, check=False)


def _die(world: World) -> None:
    """Leave what an upload that died before its meta.json, and before it was logged, leaves."""
    died = world.upload("died", "EWR")
    (world.file("died") / META_FILE).unlink()
    world.variables["BLOCK"] = died.ulid
    for entry in world.bucket.list(keys.audit(STREAM)):
        if died.ulid.encode() in world.bucket.get(entry.key):
            world.bucket.delete([entry.key])


def _partial(world: World) -> None:
    _die(world)
    world.bucket.create(keys.block(STREAM, ulids.new(clock.system()), CHUNK), b"half")


def _malformed(world: World) -> None:
    world.upload("again", "EWR")
    world.file("again", CHUNK).unlink()
    world.file("JFK", CHUNK).unlink()
    world.name("JFK")


def _deleted(world: World) -> None:
    shutil.rmtree(world.file("JFK"))
    world.name("JFK")


def _lost(world: World) -> None:
    for name in ("JFK", "LGA"):
        world.file(name, META_FILE).unlink()
    world.name("LGA")
    world.variables["OTHER"] = world.blocks["JFK"].ulid


def _full(world: World) -> None:
    bucket = world.folder / "bucket"
    moved = bucket.rename(world.folder / "moved")
    bucket.mkdir()
    used = sum(-(-path.stat().st_size // 4096) * 4096 for path in moved.rglob("*") if path.is_file())
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={used + 1_000_000}", "tmpfs", bucket], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip(f"no right to mount a small disk: {done.stderr.decode().strip()}")
    shutil.copytree(moved, bucket, dirs_exist_ok=True)
    with (bucket / "something-big").open("wb", buffering=0) as big, contextlib.suppress(OSError):
        while True:
            big.write(b"x" * 4096)
    world.name("JFK")


def _two_removers(world: World) -> None:
    now = clock.system()
    lease = Lease(owner="flights__lifecycle.manual.sweep", reason="remover", created=now, expires=now + 15_000)
    world.bucket.create(f"{keys.leases(STREAM)}{7:012d}.json", lease.to_json())
    _die(world)


def _clock(world: World) -> None:
    world.clock.advance(DAY)
    world.tables["late"] = world.tables["JFK"].slice(0, 5)
    world.upload("late")
    world.clock.advance(-DAY)
    world.variables["BLOCK"] = world.blocks["late"].ulid


HAPPENED: dict[str, Callable[[World], None]] = {
    "A partial upload": _partial,
    "A malformed block": _malformed,
    "A wrong delete": _deleted,
    "A lost meta.json": _lost,
    "A full disk": _full,
    "Two removers": _two_removers,
    "A clock that is off by a day": _clock,
}
"""What has happened to the stream, by the title of the section about it."""


class _Hasty(ThreadPacer):
    """Waits for nobody."""

    def sleep(self, ms: int) -> None:
        """Return at once."""


def run(step: Step, world: World) -> tuple[int, str]:
    """Run a command as it is written; return its exit code and all that it prints."""
    if not step.command.startswith("drystone "):
        done = subprocess.run(
            ["bash", "-ec", step.command],
            cwd=world.folder,
            env=os.environ | world.variables,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr
    words = [_expanded(word, world) for word in shlex.split(step.command)[1:]]
    found = CliRunner().invoke(app, words)
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    return found.exit_code, found.stdout + found.stderr


def _expanded(word: str, world: World) -> str:
    for name, value in world.variables.items():
        word = word.replace(f"${name}", value)
    return word


def test_every_section_has_its_emergency() -> None:
    """The page has a section for each emergency that is tried here, with commands in it, and no other."""
    found = sections(PAGE)
    assert found.keys() == HAPPENED.keys()
    assert all(found.values())


@pytest.mark.parametrize("title", HAPPENED)
def test_the_section_does_what_it_says(title: str, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every command ends and prints as the page shows it, and in the end nothing is wrong with the stream."""
    HAPPENED[title](world)
    monkeypatch.setattr(acting, "ThreadPacer", _Hasty)
    system, ahead = clock.system, [0]
    monkeypatch.setattr(clock, "system", lambda: system() + ahead[0])
    for step in sections(PAGE)[title]:
        if not step.command:
            ahead[0] += HOUR
            continue
        code, printed = run(step, world)
        expected = [_expanded(line, world) for line in step.output]
        assert (code, missing(expected, printed)) == (step.code, []), f"{step.command}\n{printed}"


def test_what_is_printed_is_compared() -> None:
    """A line that is not printed is missed, whatever `…` stands for; so is one that comes in another order."""
    assert missing(["a … c", "d"], "x\na b  c\nd") == []
    assert missing(["d", "a … c"], "a b c\nd") == ["a … c"]
    assert missing(["a … d"], "a b c") == ["a … d"]
    (step,) = sections("## T\n\n```console\n$ drystone x   # exit code 3\nout …\n```\n")["T"]
    assert (step.command, step.code, step.output) == ("drystone x", 3, ["out …"])
