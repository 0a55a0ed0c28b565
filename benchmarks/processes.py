"""How much memory a program and everything that it starts take, sampled from /proc while it runs."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

_EVERY = 0.05
_PROC = Path("/proc")
_KINDS = (("java", "jvm"), ("pyspark.daemon", "workers"))


@dataclass(slots=True)
class Peaks:
    """The greatest values of all samples, in bytes.

    `total`, `jvm`, `workers`, `driver`: of proportional set sizes (shared pages are counted once) of all processes, of
    the Java ones, of Spark's Python workers with the process that forks them, and of all others. `worker`: the resident
    set of the biggest worker.
    """

    total: int = 0
    jvm: int = 0
    workers: int = 0
    driver: int = 0
    worker: int = 0
    samples: int = 0

    def take(self, processes: Mapping[int, tuple[str, int, int]]) -> None:
        """Take in one sample: each process' kind, proportional and resident set size."""
        sums = {"jvm": 0, "workers": 0, "driver": 0}
        for kind, proportional, resident in processes.values():
            sums[kind] += proportional
            if kind == "workers":
                self.worker = max(self.worker, resident)
        self.total = max(self.total, sum(sums.values()))
        self.jvm = max(self.jvm, sums["jvm"])
        self.workers = max(self.workers, sums["workers"])
        self.driver = max(self.driver, sums["driver"])
        self.samples += 1


@dataclass(slots=True)
class Finished:
    """A program that has ended: its exit code, what it said on stderr, its peaks."""

    code: int
    said: str
    peaks: Peaks = field(default_factory=Peaks)


def watch(command: Sequence[str], environment: Mapping[str, str]) -> Finished:
    """Run a program to its end, and return what it and all its descendants took at most, sampled every 50 ms."""
    peaks = Peaks()
    with subprocess.Popen(
        command, env=dict(environment), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        ended = threading.Event()
        sampler = threading.Thread(target=_sample, args=(process.pid, peaks, ended), daemon=True)
        sampler.start()
        _, said = process.communicate()
        ended.set()
        sampler.join()
    return Finished(process.returncode, said, peaks)


def _sample(root: int, peaks: Peaks, ended: threading.Event) -> None:
    while not ended.wait(_EVERY):
        found: dict[int, tuple[str, int, int]] = {}
        for pid in _family(root):
            with contextlib.suppress(OSError):  # It has ended meanwhile.
                found[pid] = (_kind(pid), *_sizes(pid))
        peaks.take(found)


def _family(root: int) -> Iterator[int]:
    """Yield a process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                text = (entry / "stat").read_text()
                parent = int(text.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        yield pid
        waiting += children.get(pid, [])


def _kind(pid: int) -> str:
    words = (_PROC / str(pid) / "cmdline").read_text().split("\0")
    text = f"{Path(words[0]).name} {' '.join(words[1:4])}"
    return next((kind for word, kind in _KINDS if word in text), "driver")


def _sizes(pid: int) -> tuple[int, int]:
    """Return the proportional and the resident set size of a process, in bytes."""
    lines = (_PROC / str(pid) / "smaps_rollup").read_text().splitlines()[1:]
    fields = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in lines}
    return fields["Pss"], fields["Rss"]
