"""The fields of the forms with which people start a workflow: JSON Schema, checked before anything runs."""

from __future__ import annotations

from airflow.sdk import Param

DRY_RUN = "{{ params.dry_run }}"
"""The template by which a task learns whether it only shows its plan."""


def dry_run() -> Param:
    """Whether to show what would be done instead of doing it."""
    return Param(
        default=False,
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
