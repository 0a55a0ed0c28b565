"""Time is an argument: whatever needs it takes a `Clock`, so that tests and the simulation can run it."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], int]
"""A function that returns milliseconds since the Unix epoch."""


def system() -> int:
    """Return the machine's time in milliseconds since the Unix epoch."""
    return time.time_ns() // 1_000_000
