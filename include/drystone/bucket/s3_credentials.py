"""Who we are to an S3 store: boto3's own chain, or what another process handed over.

A bucket that is pickled, as Spark does to bring it to its workers, carries the credentials that the sender has found:
its workers need none of their own. They travel in the pickle only, and stand in no address, argument, environment, log
or `repr`. Where they expire, the receiver asks its own chain (environment, profile, role) for the next ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import botocore.credentials
import botocore.loaders
import botocore.session

from drystone.clock import Clock, system
from drystone.errors import BucketAccessError

_MARGIN = 120_000
"""Credentials that expire within this time (ms) are not used any more: a request takes time, and clocks differ."""
_LOADER = botocore.loaders.create_loader()
"""boto3's description of S3, read once a process: a client then takes 7 ms instead of 60."""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """An access key, its secret, a session's token if there is one, and when that expires (ms since the epoch)."""

    access_key: str
    secret_key: str
    token: str = ""
    expires: int | None = None

    def __repr__(self) -> str:
        """Tell nothing."""
        return "Credentials(…)"


def session(handed: Credentials | None, clock: Clock = system) -> botocore.session.Session:
    """Return a session of boto3's core that uses what was handed over, and its own chain after that or without."""
    made = botocore.session.Session()
    made.register_component("data_loader", _LOADER)
    if handed is not None:
        resolver = made.get_component("credential_provider")
        resolver.insert_before(resolver.providers[0].METHOD, _Provider(handed, clock))
    return made


def freeze(made: botocore.session.Session) -> Credentials | None:
    """Return what a session would sign with now, to be handed over; None if its chain finds nothing.

    Raises what the chain raises, as when a profile or a role cannot be read.
    """
    found = made.get_credentials()
    if found is None:
        return None
    if isinstance(found, _Handed):
        found = found.current()
    frozen = found.get_frozen_credentials()
    # botocore tells the expiry of what it refreshes nowhere else.
    expiry = getattr(found, "_expiry_time", None)
    expires = found.expires if isinstance(found, _Handed) else None if expiry is None else _ms(expiry)
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "", expires)


class _Handed(botocore.credentials.Credentials):  # type: ignore[misc]
    """Credentials from another process as long as they last, those of this process's own chain afterwards."""

    def __init__(self, handed: Credentials, clock: Clock) -> None:
        super().__init__(handed.access_key, handed.secret_key, handed.token or None, method="drystone")
        self.expires = handed.expires
        self._clock = clock
        self._own: botocore.credentials.Credentials | None = None

    def get_frozen_credentials(self) -> Any:
        """Return what to sign the next request with."""
        found = self.current()
        return super().get_frozen_credentials() if found is self else found.get_frozen_credentials()

    def current(self) -> Any:
        """Return these, or the own chain's once these have expired; raise BucketAccessError if that has none."""
        if self.expires is None or self._clock() + _MARGIN < self.expires:
            return self
        if self._own is None:
            self._own = botocore.session.Session().get_credentials()
        if self._own is None:
            raise BucketAccessError(
                "the credentials that came with this job have expired, and this process has none of its own.",
                "Give the workers a role or profile of their own, or use credentials that outlast the job.",
            )
        return self._own


class _Provider(botocore.credentials.CredentialProvider):  # type: ignore[misc]
    METHOD = "drystone"

    def __init__(self, handed: Credentials, clock: Clock) -> None:
        super().__init__()
        self._handed = handed
        self._clock = clock

    def load(self) -> _Handed:
        """Return what was handed over."""
        return _Handed(self._handed, self._clock)


def _ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000)
