"""Programs that tests start: on free ports, awaited, and gone with whoever started them."""

from __future__ import annotations

import ctypes
import signal
import socket
import subprocess
import sys
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1
_GRACE = 10.0


def dying_wish() -> Callable[[], None] | None:
    """Return what makes the kernel end a child when the thread that started it ends; None where the kernel cannot."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def free_port() -> int:
    """Return a port of 127.0.0.1 that nobody listens on; somebody else may be faster to take it."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that was started here: SIGTERM, and SIGKILL if it takes more than ten seconds."""
    process.terminate()
    try:
        process.wait(_GRACE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
