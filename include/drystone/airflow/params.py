"""The fields of the forms with which people start a workflow: JSON Schema, checked before anything runs."""

from __future__ import annotations

from typing import Any

from airflow.sdk import Param

DRY_RUN = "{{ params.dry_run }}"
"""The template by which a task learns whether it only shows its plan."""


def dry_run(*, default: bool = False) -> Param:
    """Whether to show what would be done instead of doing it; by default so where a person may destroy something."""
    return Param(
        default=default,
        type="boolean",
        title="Dry run",
        description="Every task logs the plan that it would execute, and changes nothing in the bucket.",
    )


def path() -> Param:
    """Files to read in place of those that the configuration names."""
    return Param(
        default=None,
        type=["null", "string"],
        minLength=1,
        title="Files",
        description="A path or glob in place of the stream's `ingest.path`; relative to the configuration file.",
    )


def choice(title: str, description: str, *values: str) -> Param:
    """One of some values, the first by default."""
    return Param(default=values[0], type="string", enum=list(values), title=title, description=description)


def text(title: str, description: str, pattern: str = "") -> Param:
    """A text that may be left out."""
    rules: dict[str, Any] = {"pattern": pattern} if pattern else {}
    return Param(default=None, type=["null", "string"], minLength=1, title=title, description=description, **rules)


def flag(title: str, description: str, *, default: bool) -> Param:
    """Yes or no."""
    return Param(default=default, type="boolean", title=title, description=description)


def approval() -> Param:
    """Whether a person is asked for a yes to the plan."""
    return flag("Ask first", "Waits for a person's yes to the plan.", default=True)


def offsets(*, needed: bool = False) -> Param:
    """Ranges of offsets in partitions of topics; at least one if `needed`."""
    return Param(
        default=[],
        type="array",
        minItems=int(needed),
        items={"type": "string", "pattern": r"^[^:]+:\d+(:\d+-\d+)?$"},
        title="Offsets",
        description="TOPIC:PARTITION:FIRST-LAST, or TOPIC:PARTITION for all of it, one a line.",
    )


def blocks(description: str) -> Param:
    """Blocks by name."""
    return ulids("Blocks", description)


def ulids(title: str, description: str) -> Param:
    """A list of ULIDs, which may be empty."""
    return Param(
        default=[],
        type="array",
        items={"type": "string", "pattern": "^[0-7][0-9A-HJKMNP-TV-Z]{25}$"},
        title=title,
        description=description,
    )


def length(title: str, default: str, description: str) -> Param:
    """A duration with its unit."""
    pattern = r"^\d+(\.\d+)?\s*(ms|s|sec|m|min|h|d)$"
    return Param(default=default, type="string", pattern=pattern, title=title, description=description)
