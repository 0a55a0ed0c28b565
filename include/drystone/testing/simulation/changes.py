"""Changing an attribute of the library for a while: what a simulation determines, and what is planted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def changed(owner: object, attribute: str, value: object) -> Iterator[None]:
    """Give a module or a class another attribute for as long as the block runs."""
    before = vars(owner)[attribute]
    setattr(owner, attribute, value)
    try:
        yield
    finally:
        setattr(owner, attribute, before)
