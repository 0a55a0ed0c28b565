"""One S3 bucket's client, and how it is asked: every request with bounded attempts, every answer looked at.

botocore's own retries are switched off. They would hide that a write has been sent twice, and they take an answer that
was cut off in its headers for a success: whoever lists would see an empty bucket.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config

from drystone.bucket.s3_address import S3Address
from drystone.bucket.s3_credentials import Credentials, freeze, session
from drystone.bucket.s3_failures import CAUGHT, TornAnswerError, explain, is_passing
from drystone.errors import BucketAccessError

CONNECT_TIMEOUT = 10
READ_TIMEOUT = 60
"""Seconds without a byte until an attempt is given up."""
CONNECTIONS = 16

_lock = threading.Lock()


def _new_lock() -> None:
    global _lock  # noqa: PLW0603 -- a child must not inherit a lock that a thread of its parent holds
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_new_lock)


def _dice() -> float:
    """Return a random number in [0, 1). A function of ours: `random.random` would be pickled with its state."""
    return random.random()  # noqa: S311 -- not for a secret


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a request is tried, and how long is waited between: a random time that doubles, in seconds.

    With the defaults a request that fails all the time takes 8 s on average, and 16 s at most, besides its time-outs.
    """

    attempts: int = 7
    first: float = 0.25
    longest: float = 8.0
    sleep: Callable[[float], None] = time.sleep
    dice: Callable[[], float] = _dice

    def wait(self, number: int) -> None:
        """Wait before the attempt after the one of this number (from 0)."""
        self.sleep(self.dice() * self._most(number))

    def watch(self, number: int) -> None:
        """Wait for what is there to be seen: the whole time, because no crowd has to be scattered."""
        self.sleep(self._most(number))

    def _most(self, number: int) -> float:
        return min(self.longest, self.first * 2.0**number)


class Store:
    """The client of one bucket: made when it is first needed, in each process anew."""

    def __init__(self, address: S3Address, credentials: Credentials | None, retries: Retries) -> None:
        """`credentials`: None for what boto3's own chain finds."""
        self.address = address
        self.retries = retries
        self._credentials = credentials
        self._client: Any = None
        self._session: Any = None
        self._process = 0
        self._known = False

    def client(self) -> Any:
        """Return boto3's client; raise the errors of `ask` if a profile or the like cannot be read."""
        if self._process != os.getpid():
            with _lock:
                if self._process != os.getpid():
                    self._client = self._connect()
                    self._process = os.getpid()
        return self._client

    def credentials(self) -> Credentials | None:
        """Return what requests are signed with now, for a copy in another process; None if nothing was found."""
        try:
            self.client()
            return freeze(self._session)
        except CAUGHT as error:
            raise explain(error, "find credentials", self.address) from None

    def ask(
        self, doing: str, call: Callable[[Any], Any], needs: tuple[str, ...], given_up: tuple[Any, ...] = ()
    ) -> Any:
        """Return the answer of `call(client)`, tried as often as it may help; it must have the fields `needs`.

        `doing` says what for, in errors. Raises what `explain` makes of the last failure; failures for which one of
        the functions `given_up` holds come through as they are, for the caller to judge.
        """
        for number in range(self.retries.attempts):
            try:
                return self.once(call, needs)
            except CAUGHT as error:
                if any(judge(error) for judge in given_up):
                    raise
                if not is_passing(error) or number + 1 == self.retries.attempts:
                    raise explain(error, doing, self.address) from error
            self.retries.wait(number)
        message = "a request needs an attempt"
        raise ValueError(message)

    def once(self, call: Callable[[Any], Any], needs: tuple[str, ...]) -> Any:
        """Return the answer to one attempt; raise TornAnswerError if a field of `needs` is missing in it."""
        try:
            answer = call(self.client())
        except RecursionError:  # botocore asks where to, and is sent elsewhere again, as by a proxy that wants https.
            message = f"{self.address.place} redirects every request."
            raise BucketAccessError(message, "Check the endpoint: http or https, host, port, and the region.") from None
        except ValueError as error:  # botocore's, for a value that is no time or no number.
            raise TornAnswerError("the answer was cut off in its headers") from error
        check_whole(answer, needs)
        return answer

    def check_bucket(self) -> None:
        """Raise the error that says so if there is no such bucket, or no such account; ask once only.

        An answer to HEAD has no text: "not found" may mean the object, the bucket, or (to some stores) ourselves.
        """
        if not self._known:
            wanted = {"Bucket": self.address.bucket, "Prefix": self.address.root, "MaxKeys": 1}
            self.ask("look into the bucket", lambda client: client.list_objects_v2(**wanted), ("IsTruncated",))
            self._known = True

    def encryption(self) -> dict[str, str]:
        """Return the parameters of a write that say how the store shall encrypt."""
        found = {"ServerSideEncryption": self.address.sse, "SSEKMSKeyId": self.address.sse_kms_key}
        return {name: value for name, value in found.items() if value}

    def _connect(self) -> Any:
        address = self.address
        try:
            self._session = session(self._credentials)
            return boto3.Session(botocore_session=self._session).client(
                "s3",
                region_name=address.region or None,
                endpoint_url=address.endpoint or None,
                config=Config(
                    connect_timeout=CONNECT_TIMEOUT,
                    read_timeout=READ_TIMEOUT,
                    retries={"mode": "standard", "total_max_attempts": 1},
                    max_pool_connections=CONNECTIONS,
                    s3={"addressing_style": "path"} if address.path_style else None,
                    tcp_keepalive=True,
                    user_agent_extra="drystone",
                ),
            )
        except CAUGHT as error:
            raise explain(error, "connect", address) from error


def check_whole(answer: Any, needs: tuple[str, ...]) -> None:
    """Raise TornAnswerError if a field of `needs` is missing in an answer, or its time was cut off."""
    if any(answer.get(name) is None for name in needs):
        raise TornAnswerError("the answer was cut off")
    if "LastModified" in needs:
        told = answer["ResponseMetadata"]["HTTPHeaders"].get("last-modified", "")
        if not told.endswith("GMT"):  # botocore makes a time of half of one.
            raise TornAnswerError("the answer was cut off in its headers")
