"""Programs in Go that tests ask what other people's code does: built once, and kept outside of the checkout.

A build is named by what went into it, so that a change of the sources or of Go itself makes a new one, and nothing else
does. It needs the `go` command; the modules come by Go's own means.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drystone" / "interop"
_KEPT_SECONDS = 14 * 86_400


def build(folder: Path, name: str, package: str = ".") -> Path:
    """Return the program that Go makes of a package, as the module in `folder` sees it.

    Takes minutes the first time. Several processes that ask at once build it once. Raises RuntimeError with what the
    compiler said; without Go it says so, rather than let a test be skipped.
    """
    go = shutil.which("go")
    if go is None:
        raise RuntimeError(f"{name} is written in Go, and there is no `go` on the PATH: install Go 1.26 or newer.")
    target = CACHE / name / _digest(go, folder, package)
    with _locked(CACHE / f"{name}.lock"):
        if not target.is_file():
            made = target.with_suffix(".new")
            _run([go, "build", "-o", str(made), package], folder)
            made.replace(target)
        target.touch()
        _forget(target.parent)
    return target


def _forget(folder: Path) -> None:
    """Remove the builds that nobody has asked for in a while; another checkout may still need its own."""
    for path in folder.iterdir():
        if time.time() - path.stat().st_mtime > _KEPT_SECONDS:
            path.unlink()


def _digest(go: str, folder: Path, package: str) -> str:
    digest = hashlib.sha256(package.encode())
    digest.update(subprocess.run([go, "version"], capture_output=True, check=True).stdout)
    for path in sorted(path for path in folder.iterdir() if path.suffix in {".go", ".mod", ".sum"}):
        digest.update(f"\0{path.name}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _run(command: list[str], folder: Path) -> None:
    # Modules as go.sum has them, or none; and other work on the machine goes first.
    environment = os.environ | {"GOFLAGS": "-mod=readonly -trimpath", "CGO_ENABLED": "0", "GOWORK": "off"}
    nice = shutil.which("nice")
    words = [nice, "-n", "15", *command] if nice else command
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} in {folder} failed:\n{done.stdout}{done.stderr}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
