"""docs/how-to/backfill-kafka.md is tried: its commands, one after the other, over a real broker."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from kafka_world import KafkaWorld
from typer.testing import CliRunner

from drystone import clock
from drystone.cli.app import app
from drystone.testing.kafka import KafkaBroker

pytestmark = pytest.mark.kafka

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "backfill-kafka.md"
_TOPIC = "departures"


@pytest.fixture
def world(kafka: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaWorld]:
    """The page's streams and topics, some messages ingested long enough ago to be read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DRYSTONE_CONFIG", raising=False)
    found = KafkaWorld(kafka, tmp_path, _TOPIC)
    kafka.create_topic(f"{_TOPIC}-again", 2)
    found.produce([(f"2023-11-0{1 + number % 3}T00:00:00Z", "Oslo") for number in range(60)], broken=6)
    found.ingest("raw")
    found.ingest("flights", found.parser())
    found.pass_time()
    now = found.now()
    monkeypatch.setattr(clock, "system", lambda: now)
    yield found
    for name in (_TOPIC, f"{_TOPIC}-again"):
        kafka.delete_topic(name)


def _run(command: str, block: str) -> str:
    words = [block if word == "$BLOCK" else word for word in shlex.split(command)]
    result = CliRunner().invoke(app, words[1:])
    assert result.exit_code == 0, f"{command}: {result.output}"
    return result.output


def test_every_command_of_the_page_works(world: KafkaWorld) -> None:
    """Each ends well; and those that change something have done what the page says."""
    commands = re.findall(r"^ *\$ (drystone .*)$", PAGE.read_text(), re.MULTILINE)
    assert {command.split()[1] for command in commands} == {"lag", "trace", "backfill", "replay"}
    before = world.cities()
    traced = json.loads(_run(f"drystone trace message {_TOPIC} 0 17 --json", ""))
    block = next(each["block"] for each in traced["found"] if each["stream"] == "flights")
    said = {command: _run(command, block) for command in commands}
    assert all("Dry run: nothing was changed." in said[c] for c in commands if "backfill" in c and "--dry-run" in c)
    assert any("10 messages would be sent" in text for text in said.values())
    assert any("43 messages were sent" in text for text in said.values())
    assert any("66 messages parsed anew, 6 of them bad" in text for text in said.values())
    assert "as they came: stream raw" in said["drystone trace block $BLOCK"]
    world.pass_time()
    assert world.cities() == before
