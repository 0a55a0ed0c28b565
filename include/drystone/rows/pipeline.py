"""Two stages at once: one thread makes the next item while another uses the last."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")

_WAIT = 0.1
"""Seconds after which a waiting producer looks whether anybody still wants its items."""


class Ahead(Generic[T]):
    """An iterator over `items`, of which up to `depth` are made ahead by another thread.

    An error in the making is raised where the item is asked for. It is a context manager: leaving it stops the other
    thread, waits for it, and closes `items`.
    """

    def __init__(self, items: Iterator[T], depth: int = 1) -> None:
        """Nothing is made before the context is entered."""
        self._items = items
        self._ready: queue.Queue[T | BaseException | None] = queue.Queue(depth)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._make, name="drystone-ahead", daemon=True)

    def __enter__(self) -> Self:
        """Begin to make items."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop, and wait until nothing is made any more."""
        self._stopped.set()
        self._thread.join()

    def __iter__(self) -> Self:
        """Return itself."""
        return self

    def __next__(self) -> T:
        """Return the next item, waiting for it."""
        item = self._ready.get()
        if item is None or isinstance(item, BaseException):
            self._ready.put(item)
            raise StopIteration if item is None else item
        return item

    def _make(self) -> None:
        last: BaseException | None = None
        try:
            for item in self._items:
                if not self._offer(item):
                    return
        except BaseException as error:  # noqa: BLE001 - it is raised in the other thread
            last = error
        finally:
            close = getattr(self._items, "close", None)
            if close is not None:
                close()
        self._offer(last)

    def _offer(self, item: T | BaseException | None) -> bool:
        while not self._stopped.is_set():
            try:
                self._ready.put(item, timeout=_WAIT)
            except queue.Full:
                continue
            return True
        return False
