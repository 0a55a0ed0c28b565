"""How the messages of a partition group are parsed: `ingest.parser`. Source: the design, "Ingest: parsers"."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from drystone.config.section import Section


class ParserConfig(Section):
    """How messages become rows."""

    model_config = ConfigDict(frozen=True, extra="allow", use_attribute_docstrings=True)

    format: str = Field(min_length=1)
    """How messages are written."""
