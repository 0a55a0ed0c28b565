"""The events that workflows tell each other: what a stream has new, and what its lifecycle has done."""

from __future__ import annotations

from airflow.sdk import Asset

GROUP = "drystone"


def ingested(stream: str) -> Asset:
    """The asset whose events say that new blocks of `stream` can be read."""
    return Asset(name=f"{stream}.ingested", uri=f"drystone://{stream}/ingested", group=GROUP)


def maintained(stream: str) -> Asset:
    """The asset whose events carry the report of a lifecycle run of `stream`."""
    return Asset(name=f"{stream}.maintained", uri=f"drystone://{stream}/maintained", group=GROUP)
