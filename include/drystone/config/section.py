"""What every section of the configuration file is, and the checks that several of them share."""

from __future__ import annotations

from datetime import date, datetime
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict


class Section(BaseModel):
    """A block of keys and values: unchangeable once read, and without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


def _day(value: object) -> object:
    """Take YAML's own dates, too: people write them without quotes."""
    text = value.isoformat() if isinstance(value, date) else value
    try:
        datetime.fromisoformat(str(text))
    except ValueError:
        msg = "must be a date, such as 2024-01-01"
        raise ValueError(msg) from None
    return text


Day = Annotated[str, BeforeValidator(_day, json_schema_input_type=str)]
"""A date in ISO-8601."""
