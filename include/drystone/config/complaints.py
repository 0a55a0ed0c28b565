"""What pydantic has against a document, in one line per wrong value: the path in it, and what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


def describe(error: ValidationError, model: type[BaseModel]) -> list[str]:
    """Return one line for each wrong value of a document that should have been a `model`."""
    return [_describe(problem, model) for problem in error.errors()]


def _describe(problem: ErrorDetails, model: type[BaseModel]) -> str:
    parts = [str(part) for part in problem["loc"] if part != "[key]"]
    place = ".".join(parts) or "the document"
    given, kind = problem.get("input"), problem["type"]
    match kind:
        case "extra_forbidden":
            return f"{place}: unknown key; known here: {', '.join(_keys(model, parts[:-1]))}"
        case "missing":
            return f"{place}: is missing"
        case "string_type" if isinstance(given, bool | int | float):
            return f"{place}: must be text: put it into quotes (given: {given!r})"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{place}: must be a block of keys and values{_shown(given)}"
        case _:
            return f"{place}: {problem['msg'].removeprefix('Value error, ')}{_shown(given)}"


def _shown(given: object) -> str:
    return f" (given: {given!r})" if given is None or isinstance(given, str | int | float | bool) else ""


def _keys(model: type[BaseModel], parts: Sequence[str]) -> list[str]:
    """Return the keys that the section at this path of a document may have."""
    section: Any = model
    for part in parts:
        if isinstance(section, type) and issubclass(section, BaseModel):
            names = {field.alias or name: field.annotation for name, field in section.model_fields.items()}
            section = names.get(part)
        else:
            section = section.__args__[-1]  # A dictionary's values.
    return [field.alias or name for name, field in section.model_fields.items()]
