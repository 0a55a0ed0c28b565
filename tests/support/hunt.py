"""Looking for a secret where it must not be: arguments of processes, files, and whatever else has text."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Self

POLL = 0.01


class Processes(AbstractContextManager["Processes"]):
    """Looks at all processes of this machine again and again until it is closed, as `ps` does.

    `told`: the arguments in which the secret stood. `trusted`: the programs that had it in their environment.
    """

    def __init__(self, secret: str) -> None:
        """`secret`: what is looked for."""
        self.told: set[str] = set()
        self.trusted: set[str] = set()
        self._secret = secret.encode()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(POLL):
            for folder in Path("/proc").iterdir():
                if folder.name.isdecimal():
                    self._look(folder)

    def _look(self, folder: Path) -> None:
        try:
            arguments = (folder / "cmdline").read_bytes()
            environment = (folder / "environ").read_bytes()
        except OSError:
            return
        shown = arguments.replace(b"\0", b" ").decode(errors="replace")
        if self._secret in arguments:
            self.told.add(shown)
        if self._secret in environment:
            self.trusted.add(shown)


def files_with(secret: str, folder: Path) -> list[str]:
    """Return the names of all files under a folder that hold the secret."""
    wanted = secret.encode()
    return [str(path) for path in folder.rglob("*") if path.is_file() and wanted in path.read_bytes()]
