"""What a verb hands back to the job that runs it."""

from __future__ import annotations

from dataclasses import dataclass, field

from drystone.errors import DrystoneError
from drystone.jobs import Batch


@dataclass
class Outcome:
    """What a verb did. `failures` are lines about actions that failed while others went on: the job then fails.

    `verdict`: the error that the job ends with although it was done, for what it found. `other_blocks`: ULIDs of the
    blocks that it uploaded to other streams, by stream.
    """

    summary: dict[str, int | str] = field(default_factory=dict)
    blocks: list[str] = field(default_factory=list)
    other_blocks: dict[str, list[str]] = field(default_factory=dict)
    plan_key: str | None = None
    batches: list[Batch] = field(default_factory=list)
    report: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    retryable: bool = True
    verdict: DrystoneError | None = None
