"""What a probe found out about a bucket, kept in the bucket itself; and the refusal of one that failed.

Source: the design, "Libraries": where a store fails the probe, Drystone says so and refuses the modes that need it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from drystone.block import keys
from drystone.bucket.protocol import Bucket
from drystone.config.durations import format_duration
from drystone.errors import ConfigError, ObjectMissingError

Result = Literal["ok", "slow", "fails", "unknown"]
"""`slow`: it works within a bound that the configuration must allow for. `unknown`: the store failed meanwhile."""

_SECOND = 1000


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class Finding(_Model):
    """One capability: how it was found, and what Drystone does where it is not `ok`."""

    capability: str
    result: Result
    found: str
    without: str
    refused: bool
    """Whether Drystone refuses the bucket for this."""


class ProbeReport(_Model):
    """A probe of one bucket. Times in ms; `lag`: how late a write or a deletion was seen; `skew`: the store's clock."""

    version: Literal[1] = 1
    bucket: str
    time: int
    """When it was taken, in ms since the epoch."""
    lag: int = 0
    skew: int = 0
    findings: tuple[Finding, ...]

    @property
    def refusals(self) -> tuple[Finding, ...]:
        """What Drystone refuses the bucket for."""
        return tuple(finding for finding in self.findings if finding.refused)

    def to_json(self) -> bytes:
        """Return the bytes of the object."""
        return self.model_dump_json(indent=1).encode()


def needed_lag(lag: int) -> int:
    """Return the `max_lag` (ms) that a measured lag asks for: twice as much, in whole seconds, and 0 for none."""
    return -(-2 * lag // _SECOND) * _SECOND


def last_probe(bucket: Bucket) -> ProbeReport | None:
    """Return what the bucket's last probe found, None if nobody has probed it; raise ConfigError for one unreadable."""
    try:
        return ProbeReport.model_validate_json(bucket.get(keys.PROBE))
    except ObjectMissingError:
        return None
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ConfigError(f"{bucket.url}: {keys.PROBE} cannot be read: {reason}.", _again(bucket.url)) from None


def refuse_unfit(bucket: Bucket, max_lag: int) -> ProbeReport | None:
    """Raise ConfigError if the bucket's last probe found that Drystone cannot work on it; else return it. One GET.

    `max_lag`: of the stream, in ms; a bucket that was seen to lag by more is refused, too. A bucket that nobody has
    probed is taken at its word.
    """
    report = last_probe(bucket)
    if report is None:
        return None
    when = datetime.fromtimestamp(report.time / _SECOND, UTC).strftime("%Y-%m-%d %H:%M UTC")
    if report.refusals:
        why = "; ".join(f"{each.capability}: {each.found}" for each in report.refusals)
        msg = f"bucket {bucket.url} is refused: its probe of {when} failed: {why}."
        raise ConfigError(msg, f"Use another store, or repair this one. {_again(bucket.url)}")
    if report.lag > max_lag:
        seen, wanted = format_duration(report.lag), format_duration(needed_lag(report.lag))
        msg = f"bucket {bucket.url} is refused: its probe of {when} saw changes {seen} late, and max_lag is "
        raise ConfigError(f"{msg}{format_duration(max_lag)}.", f"Set times.max_lag of the stream to {wanted} at least.")
    return report


def _again(url: str) -> str:
    return f"Probe it again: drystone bucket probe '{url}'"
