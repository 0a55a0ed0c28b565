"""Waiting, and doing something again and again meanwhile: passed in like the clock, so that it can be simulated."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Pacer(Protocol):
    """Lets time pass."""

    def sleep(self, ms: int) -> None:
        """Return after so many milliseconds."""
        ...

    def every(self, ms: int, act: Callable[[], None]) -> AbstractContextManager[None]:
        """Call `act` every so many milliseconds, beside the block, until it is left; `act` must not raise."""
        ...


class ThreadPacer:
    """Lets real time pass; what is done again and again is done in a thread of its own."""

    def sleep(self, ms: int) -> None:
        """See `Pacer.sleep`."""
        time.sleep(ms / 1000)

    @contextmanager
    def every(self, ms: int, act: Callable[[], None]) -> Iterator[None]:
        """See `Pacer.every`. Leaving the block waits for an `act` that runs."""
        stop = threading.Event()

        def repeat() -> None:
            while not stop.wait(ms / 1000):
                act()

        thread = threading.Thread(target=repeat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
