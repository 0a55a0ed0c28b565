"""What pydantic has against a document, in one line per wrong value: the path in it, and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails, InitErrorDetails, PydanticCustomError

_USER = re.compile(r"(//|^\w+:)\S*@")
_SETTING = re.compile(r"([?&][^=&\s]*=?)[^&\s]*")
_SECRET = re.compile(r"(?i)password|secret|token|credential|jaas|\.(options|client|conf)\.|\.ingest\.spark\.")
"""Places of a document whose values are nobody's business: settings of other programs may be secret by any name."""


def describe(error: ValidationError, model: type[BaseModel], document: object) -> list[str]:
    """Return one line for each wrong value of a document that should have been a `model`."""
    return [_describe(problem, model, document) for problem in error.errors()]


def misplaced(why: str, place: tuple[str, ...], given: object) -> ValidationError:
    """Return a complaint about the value at a place of the document, for a check that looks at the whole of it."""
    # A message with braces would be taken for a template.
    problem = PydanticCustomError("misplaced", "{why}", {"why": why})
    return ValidationError.from_exception_data("document", [InitErrorDetails(type=problem, loc=place, input=given)])


def _describe(problem: ErrorDetails, model: type[BaseModel], document: object) -> str:
    parts = [str(part) for part in problem["loc"] if part != "[key]"]
    place = ".".join(parts) or "the document"
    given, kind = problem.get("input"), problem["type"]
    match kind:
        case "extra_forbidden":
            return f"{place}: unknown key; known here: {', '.join(_keys(model, parts[:-1], document))}"
        case "missing":
            return f"{place}: is missing"
        case "string_type" if isinstance(given, bool | int | float):
            return f"{place}: must be text: put it into quotes{_shown(given, place)}"
        case "model_type" | "model_attributes_type" | "dict_type":
            return f"{place}: must be a block of keys and values{_shown(given, place)}"
        case _:
            return f"{place}: {problem['msg'].removeprefix('Value error, ')}{_shown(given, place)}"


def without_secrets(text: str) -> str:
    """Return a text without what may be a secret in an address: who somebody is, and the values of settings."""
    if "://" not in text and not text.startswith(("s3:", "memory:", "file:")):
        return text
    return _SETTING.sub(r"\1…", _USER.sub(r"\1…@", text))


def _shown(given: object, place: str) -> str:
    plain = isinstance(given, bool | None)
    if not plain and (not isinstance(given, str | int | float) or _SECRET.search(place)):
        return ""
    shown = without_secrets(given) if isinstance(given, str) else given
    return f" (given: {shown!r})"


def _keys(model: type[BaseModel], parts: Sequence[str], document: Any) -> list[str]:
    """Return the keys that the section at this path of a document may have."""
    section: Any = model
    for part in parts:
        document = document[int(part) if isinstance(document, list) else part]
        if isinstance(section, type) and issubclass(section, BaseModel):
            names = {field.alias or name: field.annotation for name, field in section.model_fields.items()}
            section = _chosen(names.get(part), document)
        else:
            section = _chosen(section.__args__[0 if section.__origin__ is tuple else -1], document)
    return [field.alias or name for name, field in section.model_fields.items()]


def _chosen(annotation: Any, value: Any) -> Any:
    """Return what a value was held to where several sections are possible: the one of its kind, or the only one.

    What tells sections apart is their `kind`, or else their `format`; the last is for a value that no other names.
    """
    sections = list(_sections(annotation))
    if len(sections) < 2:  # noqa: PLR2004 - there is nothing to choose
        return next(iter(sections), annotation)
    tag = "kind" if all("kind" in each.model_fields for each in sections) else "format"
    of_kind = (each for each in sections if value.get(tag) in get_args(each.model_fields[tag].annotation))
    return next(of_kind, sections[-1] if tag == "format" else sections[0])


def _sections(annotation: Any) -> Iterator[Any]:
    """Yield the sections that an annotation allows."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) in {Annotated, Union, UnionType}:
        for each in get_args(annotation):
            yield from _sections(each)
