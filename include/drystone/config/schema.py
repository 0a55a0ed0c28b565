"""The JSON Schema of the configuration file, for editors that complete and check it."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from pydantic_core.core_schema import WithDefaultSchema

from drystone.config.durations import FORMATS
from drystone.config.model import Config


class _Written(GenerateJsonSchema):
    """Shows defaults the way they are written in the file: `15min`, not 900000."""

    def default_schema(self, schema: WithDefaultSchema) -> dict[str, Any]:
        made = super().default_schema(schema)
        write = FORMATS.get(made.get("pattern", ""))
        if write is not None and isinstance(made.get("default"), int):
            made["default"] = write(made["default"])
        return made


def json_schema() -> dict[str, Any]:
    """Return the schema of the file as people write it: a document that it accepts has only known keys and types.

    Relations between values, such as the inequalities of the times, are checked by loading the file.
    """
    return Config.model_json_schema(schema_generator=_Written)
