"""The command line as a whole: help, errors, exit codes, and what is imported."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from lakes import STREAM, Lake, Row

from drystone.cli import exits
from drystone.cli.app import VERBS
from drystone.errors import BucketError, ConfigError, DamagedStreamError, HeldError, InvariantError, UsageError

Busy = tuple[Lake, list[Row]]
COMMAND = Path(sys.executable).parent / "drystone"


def test_help_names_every_verb_and_every_exit_code(lake: Lake) -> None:
    """`drystone --help` lists all verbs with one line each, and says what the exit codes mean."""
    text = lake.drystone("--help", config=False).out
    for verb, (_, line) in VERBS.items():
        assert re.search(rf"{verb} +{re.escape(line)}", text), verb
    assert all(f" {code} " in text for code in (exits.PROBLEMS, exits.WRONG_USE, exits.TRY_AGAIN))


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb(lake: Lake, verb: str) -> None:
    """Every verb has a help page."""
    found = lake.drystone(verb, "--help", config=False)
    assert found.code == 0
    assert f"drystone {verb}" in " ".join(found.out.split()) or f"root {verb}" in " ".join(found.out.split())


def test_version() -> None:
    """The installed command tells its version."""
    done = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"drystone {version('drystone')}\n"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (DamagedStreamError("x"), 1),
        (InvariantError("x"), 1),
        (ConfigError("x"), 2),
        (UsageError("x"), 2),
        (BucketError("x"), 3),
        (HeldError("x"), 3),
    ],
)
def test_codes_of_errors(error: Exception, code: int) -> None:
    """Damage exits with 1, wrong use and configuration with 2, what another attempt may survive with 3."""
    assert exits.code_of(error) == code


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["ls", "nothing"], 2, "no stream 'nothing'. Known: events."),
        (["read", STREAM, "--columns", "town"], 2, "has no column town."),
        (["inspect", STREAM, "01"], 2, "has no block 01."),
        (["plan", "nothing"], 2, "no stream 'nothing'"),
    ],
)
def test_an_error_is_one_line(busy: Busy, arguments: list[str], code: int, says: str) -> None:
    """An error says in one line on stderr what is wrong and what to do, without a traceback, and nothing on stdout."""
    found = busy[0].drystone(*arguments)
    assert (found.code, found.out) == (code, "")
    assert len(found.err.splitlines()) == 1
    assert found.err.startswith("drystone: ")
    assert says in found.err


def test_a_failing_store_is_worth_another_attempt(lake: Lake) -> None:
    """Where the store fails, exit code 3 tells a script that it may try again."""
    folder = lake.folder / "bucket" / STREAM
    folder.joinpath(".stream.json").unlink()
    folder.joinpath(".stream.json").symlink_to(folder / ".stream.json")
    found = lake.drystone("ls", STREAM)
    assert (found.code, len(found.err.splitlines())) == (3, 1)


def test_no_configuration(lake: Lake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a configuration the error says where it was looked for and how to give one."""
    monkeypatch.delenv("DRYSTONE_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path / "bucket")
    found = lake.drystone("ls", config=False)
    assert found.code == 2
    assert found.err == "drystone: drystone.yaml: No such file or directory. Give --config, or set DRYSTONE_CONFIG.\n"


def test_an_unknown_kind_of_bucket(lake: Lake) -> None:
    """An address of a kind that does not exist is refused with the list of known ones."""
    found = lake.drystone("ls", "--bucket", "ftp://host/x", config=False)
    assert found.code == 2
    assert "no such kind of bucket. Known: file:///" in found.err


def test_output_that_nobody_reads_on(busy: Busy) -> None:
    """Whoever stops reading our output, as `head` does, gets no complaint."""
    lake, _ = busy
    script = f"set -o pipefail; {COMMAND} read {STREAM} --json -c {lake.config_file} | head -n 1 | wc -l"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "1"
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("commands", "unwanted"),
    [
        ([["--help"]], ("airflow", "pyspark", "pyarrow", "numpy", "pydantic", "drystone.bucket")),
        ([["config", "schema"]], ("airflow", "pyspark", "pyarrow", "numpy")),
        ([["ls"], ["read", STREAM, "--count"], ["verify", STREAM, "--deep"]], ("airflow", "pyspark")),
    ],
)
def test_no_verb_pays_for_what_it_does_not_use(
    busy: Busy, commands: list[list[str]], unwanted: tuple[str, ...]
) -> None:
    """A verb imports neither Airflow nor Spark, and help imports next to nothing: it starts at once."""
    code = (
        "import sys; from drystone.cli.app import app\n"
        f"for command in {commands!r}:\n"
        "    try: app(command)\n"
        "    except SystemExit as end: assert not end.code, end.code\n"
        f"found = [name for name in {unwanted!r} if name in sys.modules]\n"
        "sys.exit(f'imported: {found}' if found else 0)"
    )
    environment = os.environ | {"DRYSTONE_CONFIG": str(busy[0].config_file)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
