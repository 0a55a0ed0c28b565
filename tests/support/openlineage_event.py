"""The shape of OpenLineage's run events, as a JSON Schema of our own, written from the public specification 2-0-2.

It holds what the specification requires of an event, its run, job and datasets and of every facet, and the fields of
the facets that Drystone's jobs send.
"""

from __future__ import annotations

from typing import Any

_URI = {"type": "string", "format": "uri", "pattern": "^https?://"}
_TEXT = {"type": "string", "minLength": 1}


def _facets(**known: Any) -> dict[str, Any]:
    base = {"type": "object", "required": ["_producer", "_schemaURL"], "properties": {"_producer": _URI}}
    base["properties"] |= {"_schemaURL": _URI}
    return {
        "type": "object",
        "properties": {name: {"allOf": [base, each]} for name, each in known.items()},
        "additionalProperties": base,
    }


_COUNT = {"type": "integer", "minimum": 0}
_SCHEMA = {
    "required": ["fields"],
    "properties": {"fields": {"type": "array", "items": {"required": ["name"], "properties": {"name": _TEXT}}}},
}
_STATISTICS = {"properties": {"rowCount": _COUNT, "size": _COUNT, "fileCount": _COUNT}}


def _dataset(**facets: Any) -> dict[str, Any]:
    known = {"namespace": _TEXT, "name": _TEXT, "facets": _facets(schema=_SCHEMA)}
    return {"type": "object", "required": ["namespace", "name"], "properties": {**known, **facets}}


RUN_EVENT: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["eventTime", "producer", "schemaURL", "run", "job"],
    "properties": {
        "eventType": {"enum": ["START", "RUNNING", "COMPLETE", "ABORT", "FAIL", "OTHER"]},
        "eventTime": {"type": "string", "format": "date-time"},
        "producer": _URI,
        "schemaURL": _URI,
        "run": {
            "type": "object",
            "required": ["runId"],
            "properties": {"runId": {"type": "string", "format": "uuid"}, "facets": _facets()},
        },
        "job": {
            "type": "object",
            "required": ["namespace", "name"],
            "properties": {"namespace": _TEXT, "name": _TEXT, "facets": _facets()},
        },
        "inputs": {"type": "array", "items": _dataset(inputFacets=_facets())},
        "outputs": {"type": "array", "items": _dataset(outputFacets=_facets(outputStatistics=_STATISTICS))},
    },
}
