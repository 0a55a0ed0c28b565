"""Programs in Go are built once for all who ask, and again when what they are made of has changed."""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import go_programs
import pytest
from go_programs import build

# A machine that has never built anything in Go builds Go's own library first.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that says "one", and an empty cache."""
    monkeypatch.setattr(go_programs, "CACHE", tmp_path / "cache")
    folder = tmp_path / "sources"
    folder.mkdir()
    folder.joinpath("go.mod").write_text("module says\n\ngo 1.26\n")
    _write(folder, "one")
    return folder


def _write(folder: Path, word: str) -> None:
    folder.joinpath("main.go").write_text(f'package main\n\nfunc main() {{ println("{word}") }}\n')


def _said(program: Path) -> str:
    return subprocess.run([program], capture_output=True, text=True, check=True).stderr.strip()


def test_a_program_is_built_once(sources: Path) -> None:
    """Several that ask at once get one program, and who asks again gets the same without another build."""
    with ThreadPoolExecutor(3) as pool:
        programs = set(pool.map(lambda _: build(sources, "says"), range(3)))
    (program,) = programs
    assert _said(program) == "one"
    inode = program.stat().st_ino
    assert build(sources, "says") == program
    assert program.stat().st_ino == inode


def test_a_change_makes_another(sources: Path) -> None:
    """Other sources are another program; the one before stays for two weeks, for another checkout."""
    first = build(sources, "says")
    _write(sources, "two")
    second = build(sources, "says")
    assert (_said(first), _said(second)) == ("one", "two")
    old = time.time() - 15 * 86_400
    os.utime(first, (old, old))
    build(sources, "says")
    assert not first.exists()
    assert second.exists()


def test_what_cannot_be_built_says_why(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the compiler is shown; without Go, it is said what is missing; neither leaves anything behind."""
    sources.joinpath("main.go").write_text("package main\n\nfunc main() { nonsense() }\n")
    with pytest.raises(RuntimeError, match="undefined: nonsense"):
        build(sources, "says")
    monkeypatch.setenv("PATH", str(sources))
    with pytest.raises(RuntimeError, match="install Go"):
        build(sources, "says")
    assert list((go_programs.CACHE / "says").glob("*")) == []
