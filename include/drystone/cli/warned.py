"""Warnings as people want them on a terminal: one line each, without the place in our code."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show every warning that is raised inside as one line on stderr."""

    def show(message: object, *_: object) -> None:
        print(f"drystone: warning: {message}", file=sys.stderr)  # noqa: T201 - this is a command

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show  # type: ignore[assignment] # it takes whatever is given
        yield
