"""The environment: pinned whole, in step with what asks for it, and a clear word where the machine lacks something."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version


def pins(root: Path) -> dict[str, Version]:
    """Return the version of every package in requirements.txt; a line that pins none is an error."""
    found = {}
    for line in (root / "requirements.txt").read_text().splitlines():
        text = line.partition("#")[0].strip()
        if text:
            match = re.fullmatch(r"([a-z0-9-]+)==(\S+)", text)
            assert match is not None, f"not a pin: {text}"
            found[match[1]] = Version(match[2])
    return found


def wanted(root: Path) -> list[Requirement]:
    """Return what requirements.in and pyproject.toml ask for."""
    lines = [line.partition("#")[0].strip() for line in (root / "requirements.in").read_text().splitlines()]
    project = tomllib.loads((root / "pyproject.toml").read_text())
    lines += project["build-system"]["requires"] + project["project"]["dependencies"]
    lines += [line for extra in project["project"]["optional-dependencies"].values() for line in extra]
    return [Requirement(line) for line in lines if line]


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in a folder, as a person would: not as a part of the make that may have started the tests."""
    clean = {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
    clean["LC_ALL"] = "C"
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=False, env=clean)


@pytest.fixture
def copy(root: Path, tmp_path: Path) -> Path:
    """A checkout with the Makefile and what it reads, and no environment."""
    for name in ("Makefile", "pyproject.toml", "requirements.in", "requirements.txt"):
        shutil.copy(root / name, tmp_path)
    return tmp_path


def test_requirements_are_pinned_and_satisfy_everyone(root: Path) -> None:
    """What requirements.in and pyproject.toml ask for is pinned in requirements.txt, in a version that fits."""
    pinned = pins(root)
    for requirement in wanted(root):
        name = requirement.name.lower().replace("_", "-")
        assert pinned[name] in requirement.specifier, requirement


def test_pyspark_and_its_client_have_one_version(root: Path) -> None:
    """The packages pyspark and pyspark-client own the same files, and so are pinned to the same version."""
    assert pins(root)["pyspark"] == pins(root)["pyspark-client"]


def test_make_lists_its_commands(root: Path) -> None:
    """`make` without a goal lists every command with a line of explanation, and does nothing."""
    listed = {line.split()[1] for line in make(root).stdout.splitlines()}
    assert listed == {
        "help", "setup", "demo", "demo-kafka", "ui", "cluster", "cluster-down", "test", "test-all", "simulate", "bench",
        "lint", "docs", "screenshots", "requirements", "clean",
    }  # fmt: skip


def test_a_missing_python_is_said_in_one_line(copy: Path) -> None:
    """Without Python 3.11, `make setup` says what is missing and how to get it, and leaves nothing behind."""
    run = make(copy, "setup", "PYTHON=python-that-is-not-here")
    assert run.returncode != 0
    assert run.stderr.splitlines()[0].startswith("Python 3.11 is needed")
    assert not (copy / ".venv").exists()


def test_a_missing_java_is_said_in_one_line(copy: Path) -> None:
    """Without Java 17, whatever needs Spark says so before it starts."""
    run = make(copy, "java", "JAVA_HOME=/not/here")
    assert run.returncode != 0
    assert run.stderr.splitlines()[0].startswith("Java 17 is needed")


def programs(folder: Path, **texts: str) -> Path:
    """Make programs that print something."""
    folder.mkdir()
    for name, text in texts.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def test_a_missing_postgresql_is_said_or_fetched(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without PostgreSQL, `make cluster` says what is missing and how to get it; root gets it."""
    path = os.environ["PATH"]
    user = programs(tmp_path / "user", id="echo 1000", **{"apt-get": "echo never >> apt"})
    monkeypatch.setenv("PATH", f"{user}{os.pathsep}{path}")
    run = make(copy, "postgres", "INITDB=")
    assert run.returncode != 0
    assert run.stderr.splitlines()[0].startswith("PostgreSQL is needed")
    assert make(copy, "postgres", "INITDB=/usr/bin/initdb").returncode == 0
    assert not (copy / "apt").exists()
    root = programs(tmp_path / "root", id="echo 0", **{"apt-get": "echo $* >> apt"})
    monkeypatch.setenv("PATH", f"{root}{os.pathsep}{path}")
    assert make(copy, "postgres", "INITDB=").returncode == 0
    assert (copy / "apt").read_text().splitlines() == ["update", "install --yes --no-install-recommends postgresql"]


def test_a_missing_chromium_is_said_or_fetched(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Chromium, `make test` says what is missing and how to get it; root gets it."""
    path = os.environ["PATH"]
    user = programs(tmp_path / "user", id="echo 1000", **{"apt-get": "echo never >> apt"})
    monkeypatch.setenv("PATH", f"{user}{os.pathsep}{path}")
    run = make(copy, "chromium", "CHROMIUM=")
    assert run.returncode != 0
    assert run.stderr.splitlines()[0].startswith("Chromium is needed")
    assert make(copy, "chromium", "CHROMIUM=/usr/bin/chromium").returncode == 0
    assert not (copy / "apt").exists()
    root = programs(tmp_path / "root", id="echo 0", **{"apt-get": "echo $* >> apt"})
    monkeypatch.setenv("PATH", f"{root}{os.pathsep}{path}")
    assert make(copy, "chromium", "CHROMIUM=").returncode == 0
    assert (copy / "apt").read_text().splitlines() == ["update", "install --yes --no-install-recommends chromium"]


@pytest.mark.parametrize(
    ("version", "fits"),
    [
        ('openjdk version "17.0.15" 2025-04-15', True),
        ('openjdk version "17" 2021-09-14', True),
        ('openjdk version "21.0.2" 2024-01-16 LTS', True),
        ('openjdk version "11.0.22" 2024-01-16', False),
        ('java version "1.8.0_402"', False),
    ],
)
def test_java_versions_are_told_apart(copy: Path, version: str, fits: bool) -> None:  # noqa: FBT001
    """Java 17 and newer are taken, older ones refused."""
    java = copy / "jdk/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho '{version}' >&2\n")
    java.chmod(0o755)
    assert (make(copy, "java", f"JAVA_HOME={copy}/jdk").returncode == 0) is fits


def test_an_environment_that_is_up_to_date_is_left_alone(copy: Path) -> None:
    """`make setup` does nothing while its stamps are newer than requirements.txt and pyproject.toml."""
    (copy / ".venv").mkdir()
    now = time.time()
    for name, age in {
        "requirements.txt": 9,
        "pyproject.toml": 9,
        ".venv/.requirements": 6,
        ".venv/.drystone": 3,
    }.items():
        (copy / name).touch()
        os.utime(copy / name, (now - age, now - age))
    assert "Nothing to be done" in make(copy, "setup").stdout
    os.utime(copy / "pyproject.toml")
    assert "--editable" in make(copy, "--dry-run", "setup").stdout


def test_a_run_from_a_fresh_clone_is_the_same_as_make_test(root: Path) -> None:
    """.ci/run is executable, and runs `make test` and nothing else."""
    script = root / ".ci/run"
    lines = [line for line in script.read_text().splitlines() if line and not line.startswith("#")]
    assert os.access(script, os.X_OK)
    assert lines[-1] == "make test"
