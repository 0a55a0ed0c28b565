"""The events that workflows tell each other: what a stream has new, and what its lifecycle has done."""

from __future__ import annotations

from airflow.sdk import Asset

GROUP = "drystone"
# They have names and no URIs: for a URI Airflow loads the hooks of all providers, boto3 among them, in every task.


def ingested(stream: str) -> Asset:
    """The asset whose events say that new blocks of `stream` can be read."""
    return Asset(name=f"{stream}.ingested", group=GROUP)


def exported(stream: str) -> Asset:
    """The asset whose events say that messages of `stream` were copied to files."""
    return Asset(name=f"{stream}.exported", group=GROUP)


def replayed(stream: str) -> Asset:
    """The asset whose events say that messages of `stream` were sent into a topic again."""
    return Asset(name=f"{stream}.replayed", group=GROUP)


def maintained(stream: str) -> Asset:
    """The asset whose events carry the report of a lifecycle run of `stream`."""
    return Asset(name=f"{stream}.maintained", group=GROUP)
