"""Virtual time, and programs that take turns in it: of all threads one runs, until it waits for a time to come."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


class DeadProcessError(BaseException):
    """The program that goes on here has crashed: nothing of it may go on. No handler of errors takes it for one."""


@dataclass(eq=False)
class Life:
    """One run of a program, with all its threads: it sleeps and dies as a whole. Times are ms."""

    dead: bool = False
    asleep_until: int = 0


@dataclass(eq=False)
class Strand:
    """A thread of the simulation, and the moment from which it may go on."""

    name: str
    life: Life
    wake: int
    go: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    done: bool = False

    @property
    def due(self) -> int:
        """When it goes on; a dead one at once, to find out."""
        return self.wake if self.life.dead else max(self.wake, self.life.asleep_until)


class Scheduler:
    """Lets the strands run one at a time, always the one whose time comes first. `now`: the true time in ms."""

    def __init__(self, now: int) -> None:
        """Begin at a time, with nothing to run."""
        self.now = now
        self.failure: BaseException | None = None
        self.closing = False
        self._strands: list[Strand] = []
        self._back = threading.Semaphore(0)
        self._running: Strand | None = None

    @property
    def current(self) -> Strand:
        """The strand that runs."""
        if self._running is None:
            msg = "nothing runs"
            raise RuntimeError(msg)
        return self._running

    def start(self, name: str, body: Callable[[], None], life: Life | None = None, wait: int = 0) -> Strand:
        """Let a strand begin `wait` ms from now, in a life of its own unless one is given."""
        strand = Strand(name, life or Life(), self.now + wait)
        self._strands.append(strand)
        threading.Thread(target=self._live, args=(strand, body), name=name, daemon=True).start()
        return strand

    def pause(self, ms: int) -> None:
        """Let others go on for so long; raise DeadProcessError if the caller's life has ended meanwhile."""
        strand = self.current
        if strand.life.dead:
            raise DeadProcessError
        strand.wake = self.now + ms
        self._back.release()
        strand.go.acquire()
        if strand.life.dead:
            raise DeadProcessError

    def asleep_until(self, name: str) -> int:
        """Return until when somebody of whose name this is a part sleeps, the longest (ms); 0 if nobody does."""
        found = (strand.life.asleep_until for strand in self._strands if name in strand.name)
        return max((moment for moment in found if moment > self.now), default=0)

    def fail(self, error: BaseException) -> None:
        """Say that something is wrong: the run stops before anything else is done."""
        self.failure = self.failure or error

    def run(self) -> None:
        """Run until all strands are done; raise the first failure."""
        while self._strands and self.failure is None:
            strand = min(self._strands, key=lambda each: each.due)
            self.now = max(self.now, strand.due)
            self._resume(strand)
        if self.failure is not None:
            raise self.failure

    def close(self) -> None:
        """End every strand that still waits."""
        self.closing = True
        for strand in self._strands:
            strand.life.dead = True
        while self._strands:
            self._resume(self._strands[0])

    def _resume(self, strand: Strand) -> None:
        self._running = strand
        strand.go.release()
        self._back.acquire()
        if strand.done:
            self._strands.remove(strand)

    def _live(self, strand: Strand, body: Callable[[], None]) -> None:
        strand.go.acquire()
        try:
            if not strand.life.dead:
                body()
        except DeadProcessError:
            pass
        except BaseException as error:  # noqa: BLE001 - the boundary of a thread: whoever runs the simulation raises it
            self.fail(error)
        finally:
            strand.done = True
            self._back.release()


class SimulatedPacer:
    """Lets virtual time pass. See `drystone.engine.pacer.Pacer`."""

    def __init__(self, scheduler: Scheduler) -> None:
        """`scheduler`: whose time it is."""
        self._scheduler = scheduler

    def sleep(self, ms: int) -> None:
        """See `Pacer.sleep`."""
        self._scheduler.pause(ms)

    @contextmanager
    def every(self, ms: int, act: Callable[[], None]) -> Iterator[None]:
        """See `Pacer.every`."""
        stopped, busy = [False], [False]

        def repeat() -> None:
            while True:
                self._scheduler.pause(ms)
                if stopped[0]:
                    return
                busy[0] = True
                act()
                busy[0] = False

        owner = self._scheduler.current
        self._scheduler.start(f"{owner.name}, beside it", repeat, owner.life, wait=ms)
        try:
            yield
        finally:
            stopped[0] = True
            while busy[0] and not owner.life.dead:
                self._scheduler.pause(10)
