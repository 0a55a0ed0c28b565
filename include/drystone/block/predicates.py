"""Predicates over rows: what an erase edit selects. Pure data; engines turn it into their own expressions.

A row is selected only if the predicate is true for it; a comparison with a null is not true (SQL's rule).
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

Value = bool | int | float | str
Operator = Literal["=", "!=", "<", "<=", ">", ">="]


class _Node(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Comparison(_Node):
    """`column` `op` `value`. A time is given in ISO-8601."""

    column: str
    op: Operator
    value: Value


class OneOf(_Node):
    """`column` has one of the `values`."""

    column: str
    values: tuple[Value, ...] = Field(alias="in", min_length=1)
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, serialize_by_alias=True)


class All(_Node):
    """Every one of the predicates is true."""

    all: tuple[Predicate, ...] = Field(min_length=1)


class Any(_Node):
    """At least one of the predicates is true."""

    any: tuple[Predicate, ...] = Field(min_length=1)


def _form(value: object) -> str:
    """Tell which form a predicate has by what it is written with, so that an error is about that form."""
    if isinstance(value, _Node):
        return type(value).__name__
    written = value if isinstance(value, dict) else {}
    forms = {"all": "All", "any": "Any", "in": "OneOf", "values": "OneOf"}
    return next((form for name, form in forms.items() if name in written), "Comparison")


Predicate = Annotated[
    Annotated[Comparison, Tag("Comparison")]
    | Annotated[OneOf, Tag("OneOf")]
    | Annotated[All, Tag("All")]
    | Annotated[Any, Tag("Any")],
    Discriminator(_form),
]

All.model_rebuild()
Any.model_rebuild()


def columns(predicate: Predicate) -> frozenset[str]:
    """Return the names of the columns that the predicate looks at."""
    match predicate:
        case All():
            return frozenset().union(*(columns(part) for part in predicate.all))
        case Any():
            return frozenset().union(*(columns(part) for part in predicate.any))
        case _:
            return frozenset({predicate.column})
