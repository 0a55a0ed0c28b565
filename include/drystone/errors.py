"""Every error that Drystone raises on purpose: one root, one leaf per thing that a caller can do something about.

A message says what happened and where; `next_step` says what to do. `retryable` tells a scheduler whether trying the
same thing again can help: it is what the Airflow operator turns into "retry with back-off" or "fail at once".
"""

from __future__ import annotations


class DrystoneError(Exception):
    """The root of all errors raised on purpose."""

    retryable: bool = False

    def __init__(self, message: str, next_step: str = "") -> None:
        """`message`: what and where, in one line. `next_step`: what the reader can do about it."""
        super().__init__(message if not next_step else f"{message} {next_step}")
        self.message = message
        self.next_step = next_step


class ConfigError(DrystoneError):
    """A configuration value is wrong: the message names the file, the path in it, and what is allowed."""


class StreamChangeError(ConfigError):
    """The configuration asks for a change that a stream with data cannot take."""


class UsageError(DrystoneError):
    """An argument names something that does not exist or cannot be used that way."""


class BucketError(DrystoneError):
    """The store failed in a way that another attempt may survive."""

    retryable = True


class BucketAccessError(BucketError):
    """The store does not let us in: credentials, rights, the bucket's name or the clock must be put right first."""

    retryable = False


class UnfitBucketError(BucketError):
    """The store does not do what Drystone relies on: no other attempt will change that."""

    retryable = False


class KafkaError(DrystoneError):
    """A Kafka cluster failed, or changed, in a way that another attempt may survive."""

    retryable = True


class KafkaAccessError(KafkaError):
    """A Kafka cluster does not let us in, or not do that: secrets or rights must be put right first."""

    retryable = False


class ObjectMissingError(BucketError):
    """No object has this key (now)."""

    def __init__(self, key: str) -> None:
        """`key`: the key that was asked for."""
        super().__init__(f"no object {key!r} in the bucket.")
        self.key = key


class ObjectExistsError(DrystoneError):
    """A create-only write found an object under its key; nothing was written."""

    def __init__(self, key: str) -> None:
        """`key`: the key that is taken."""
        super().__init__(f"object {key!r} exists already, and was left as it is.")
        self.key = key


class UnreadableBlockError(DrystoneError):
    """One block's metadata cannot be used; no other block is affected."""


class DamagedStreamError(DrystoneError):
    """Rows that should be there cannot be read; the message names the blocks."""


class UploadTimeoutError(DrystoneError):
    """An upload passed its deadline; what it wrote was removed, and was never readable."""

    retryable = True


class InvariantError(DrystoneError):
    """A rewrite would have lost, doubled or changed rows; nothing was uploaded."""


class InputError(DrystoneError):
    """Input data does not fit the stream; nothing of it was uploaded."""


class SourceChangedError(InputError):
    """A file that was ingested before has other content now."""


class PlanExpiredError(DrystoneError):
    """A plan is older than `plan_ttl`; the bucket may have changed under it."""

    retryable = True


class HeldError(DrystoneError):
    """Another remover has the lease, or a hold keeps removers off."""

    retryable = True


class LostMessagesError(InputError):
    """Kafka no longer has messages that are in no block; the message names their offsets."""


class LagError(DrystoneError):
    """Messages have been waiting for longer than the stream's `max_lag`; what could be done was done."""


class GivenUpError(DrystoneError):
    """Another run gave up the plan that this one was at; what it uploaded counts for nothing."""

    retryable = True
