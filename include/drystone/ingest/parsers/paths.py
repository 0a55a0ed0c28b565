"""Paths into a message: names and list indexes, whatever the format it was written in."""

from __future__ import annotations

from collections.abc import Mapping

from drystone.config.parser import Path


def show(path: Path) -> str:
    """Return the path as people write it."""
    return ".".join(map(str, path))


def follow(value: object, path: Path) -> object:
    """Return what lies at a path of a decoded message; None where nothing does.

    A number is an index of a list (negative: from its end), and a name of anything else. Raises ValueError, naming the
    part of the path, where the message has a value that nothing can lie in.
    """
    for depth, step in enumerate(path):
        if value is None:
            return None
        if type(value) is dict or isinstance(value, Mapping):
            value = _named(value, step)
        elif isinstance(value, list | tuple):
            value = _indexed(value, step, path[:depth])
        else:
            where = show(path[:depth]) or "the message"
            raise ValueError(f"{where} is {kind_of(value)}, so there is no {show(path)}")
    return value


def kind_of(value: object) -> str:
    """Return what people call a value of this type."""
    if isinstance(value, bool):
        return "a truth value"
    if isinstance(value, Mapping):
        return "an object"
    known = {str: "text", bytes: "bytes", int: "a number", float: "a number", list: "a list", tuple: "a list"}
    return known.get(type(value), f"a {type(value).__name__}")


def is_index(step: str | int) -> bool:
    """Tell whether a step can be a list's index."""
    return isinstance(step, int) or (step.removeprefix("-").isdecimal() and step.isascii())


def _named(value: Mapping[object, object], step: str | int) -> object:
    found = value.get(step)
    if found is None and is_index(step):
        # Keys of MessagePack, and of maps elsewhere, may be numbers or text.
        found = value.get(int(step) if isinstance(step, str) else str(step))
    return found


def _indexed(value: list[object] | tuple[object, ...], step: str | int, above: Path) -> object:
    if not is_index(step):
        raise ValueError(f"{show(above) or 'the message'} is a list, which has no {step}")
    index = int(step)
    return value[index] if -len(value) <= index < len(value) else None
