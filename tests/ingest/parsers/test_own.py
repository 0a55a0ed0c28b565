"""A format that an installed package offers: found by its entry point, and refused in one line where it is no good."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from parsing import PLANNED_AT, messages, parser, rows

from drystone.errors import InputError

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "pairs-for-drystone"
version = "1.2"

[project.entry-points."drystone.parsers"]
pairs = "pairs_for_drystone:Pairs"
"""
MODULE = '''
"""Messages such as `carrier=AA count=5`."""

from drystone.ingest.parsers.own import MessageDecoder


class Pairs(MessageDecoder):
    version = "1"
    text = True

    def __init__(self, options, folder):
        super().__init__(options, folder)
        if unknown := options.keys() - {"separator", "names"}:
            raise ValueError(f"unknown option {sorted(unknown)[0]}")
        names = options.get("names")
        self.names = (folder / names).read_bytes() if names else b""

    def files(self):
        return {"names": self.names} if self.names else {}

    def decode(self, value):
        pairs = value.decode().split(self.options.get("separator", " "))
        return dict(pair.split("=", 1) for pair in pairs)
'''
COLUMNS = {"time": "timestamp", "carrier": "string", "count": "int32"}
PAIRS = {"format": "pairs", "options": {"separator": ";"}, "time": {"path": "at", "format": "s"}}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that pip installed the package into."""
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    (source / "pairs_for_drystone").mkdir()
    (source / "pairs_for_drystone/__init__.py").write_text(MODULE)
    (source / "pyproject.toml").write_text(PROJECT)
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--no-index", "--quiet"]
    run = subprocess.run([*pip, "--target", str(site), str(source)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return site


@pytest.fixture
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The package is there, as far as this process can see."""
    monkeypatch.syspath_prepend(str(site))
    return site


def test_an_installed_format_is_like_any_other(installed: Path) -> None:
    """Its decoder takes messages apart; columns, types, times and errors are the configuration's and Drystone's."""
    made = parser(PAIRS, COLUMNS)
    values = [b"at=1700000000;carrier=AA;count=5", b"carrier=B;count=x", b"nothing", None, b"count=1"]
    parsed = made.parse(messages(values), PLANNED_AT)
    time = datetime.fromtimestamp(1_700_000_000, UTC)
    assert rows(parsed) == [{"time": time, "carrier": "AA", "count": 5}, {"count": 1}]
    assert [position for position, _ in parsed.errors] == [1, 2, 3]
    assert parsed.errors[0][1] == "count: 'x' is text that does not fit int32"


def test_its_version_options_and_files_make_its_digest(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another release of the same code is the same parser; another version that it says, or another file, is not."""
    first = parser(PAIRS, COLUMNS).digest
    assert parser(PAIRS, COLUMNS).digest == first
    assert parser(PAIRS | {"options": {}}, COLUMNS).digest != first
    named = PAIRS | {"options": {"names": "names.txt"}}
    digests = set()
    for content in ("a", "b"):
        (tmp_path / "names.txt").write_text(content)
        digests.add(parser(named, COLUMNS, tmp_path).digest)
    assert len(digests) == 2
    monkeypatch.setattr("pairs_for_drystone.Pairs.version", "2")
    assert parser(PAIRS, COLUMNS).digest != first


def test_what_is_wrong_with_it_is_said_at_the_start(installed: Path, tmp_path: Path) -> None:
    """Unknown names, options that it refuses, files that it lacks."""
    for config, said in [
        (PAIRS | {"format": "pears"}, "format 'pears' is unknown. Known here: avro, .*pairs"),
        (
            PAIRS | {"options": {"a": 1}},
            "pairs-for-drystone cannot be used: ValueError: unknown option a",
        ),
        (PAIRS | {"options": {"names": "gone"}}, "cannot be used: FileNotFoundError: "),
    ]:
        with pytest.raises(InputError, match=said) as caught:
            parser(config, COLUMNS, tmp_path)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("class Odd: pass", "odd:Odd is no drystone.ingest.parsers.own.MessageDecoder with a version"),
        ("import nothing_of_the_kind", "odd:Odd cannot be imported: ModuleNotFoundError: No module named 'nothing_of"),
        ("", "odd:Odd cannot be imported: AttributeError: "),
        ("from drystone.ingest.parsers.own import MessageDecoder as Odd", "is no drystone.* with a version"),
    ],
)
def test_an_entry_point_that_is_no_parser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, said: str
) -> None:
    """It is named, with what is wrong, and what to do."""
    info = tmp_path / "odd-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[drystone.parsers]\nodd = odd:Odd\n")
    (tmp_path / "odd.py").write_text(module)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "odd", raising=False)
    with pytest.raises(InputError, match=said) as caught:
        parser({"format": "odd"}, COLUMNS)
    assert "\n" not in str(caught.value)
    monkeypatch.delitem(sys.modules, "odd", raising=False)
