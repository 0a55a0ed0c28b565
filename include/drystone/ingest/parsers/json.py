"""JSON messages: decoded by msgspec, only as far as columns need them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any, ClassVar

import msgspec

from drystone.config.parser import Path

_Tree = dict[str, Any]
"""Names to trees, or None where a value is taken whole."""


@dataclass(frozen=True)
class JsonDecoder:
    """Decodes one object; what no path leads to is skipped unread. `exact`: numbers with a point become Decimal."""

    paths: tuple[Path, ...]
    exact: bool = False
    text: ClassVar[bool] = False

    def decode(self, value: bytes) -> object:
        """See `Decoder`. Of two members of one name the last counts."""
        return _plain(_decoder(self.paths, self.exact).decode(value))


def names_only(paths: Iterable[Path]) -> bool:
    """Tell whether all paths are made of names, none of which may be an index, and none leads through another one."""
    whole = set(paths)
    plain = all(isinstance(step, str) and _is_plain(step) for path in whole for step in path)
    return plain and not any(path[:length] in whole for path in whole for length in range(1, len(path)))


def _is_plain(step: str) -> bool:
    return bool(step) and not step.removeprefix("-").isdecimal() and step.isprintable() and not set(step) & {'"', "\\"}


class _Struct(msgspec.Struct):
    """The base of the structures that messages are decoded into."""


def _plain(value: object) -> object:
    """Return a structure as mappings; what is not there is left out."""
    if not isinstance(value, _Struct):
        return value
    names = _names_of(type(value))
    return {name: _plain(found) for name, field in names if (found := getattr(value, field)) is not None}


@lru_cache(maxsize=1024)
def _names_of(kind: type[_Struct]) -> tuple[tuple[str, str], ...]:
    return tuple((field.encode_name, field.name) for field in msgspec.structs.fields(kind))


@lru_cache(maxsize=64)
def _decoder(paths: tuple[Path, ...], exact: bool) -> msgspec.json.Decoder[Any]:  # noqa: FBT001 - a key of the cache
    flat = all(names_only([path[:1]]) for path in paths)
    kind: Any = _structure(_tree(paths)) if flat else dict[str, Any]
    return msgspec.json.Decoder(kind, float_hook=Decimal if exact else None)


def _tree(paths: Sequence[Path]) -> _Tree:
    """Return the names that lead to all paths, each as far as nothing but names is certain to be needed."""
    made: _Tree = {}
    ends = set(paths)
    for path in paths:
        at = made
        for depth, step in enumerate(path):
            name = str(step)
            last = depth + 1 == len(path) or path[: depth + 1] in ends or not names_only([path[depth + 1 :]])
            if last or at.get(name, {}) is None:
                at[name] = None
                break
            at = at.setdefault(name, {})
    return made


def _structure(tree: _Tree) -> type[_Struct]:
    fields: list[tuple[str, Any, Any]] = []
    names: dict[str, str] = {}
    for number, (name, below) in enumerate(tree.items()):
        names[f"f{number}"] = name
        fields.append((f"f{number}", Any if below is None else _structure(below) | None, None))
    made: type[_Struct] = msgspec.defstruct("Message", fields, bases=(_Struct,), rename=names)  # type: ignore[assignment]
    return made
