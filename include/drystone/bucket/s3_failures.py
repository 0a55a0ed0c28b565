"""What the errors of an S3 store mean, which of them another attempt may survive, and what to do about the others."""

from __future__ import annotations

from typing import Any, TypeAlias

from botocore import exceptions as boto
from botocore.parsers import ResponseParserError

from drystone.bucket.s3_address import S3Address
from drystone.config.complaints import without_secrets
from drystone.errors import BucketAccessError, BucketError, DrystoneError, UsageError


class TornAnswerError(Exception):
    """An answer came without what every answer of its kind has: the connection was cut in the middle of its headers.

    botocore takes such an answer for a success with nothing in it.
    """


FAILURES: TypeAlias = boto.ClientError | boto.BotoCoreError | ResponseParserError | TornAnswerError
CAUGHT = (boto.ClientError, boto.BotoCoreError, ResponseParserError, TornAnswerError)

_IN_THE_WAY = frozenset({"ObjectParentIsFile", "ExistingObjectIsDirectory"})
"""A gateway to a file system says so; also for a moment, when somebody else empties the folder that we write to."""
_SLOW = frozenset({"SlowDown", "Throttling", "ThrottlingException", "RequestLimitExceeded", "TooManyRequests"})
_HARMED = frozenset({"BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch", "XAmzContentChecksumMismatch"})
_FAILED = frozenset({"InternalError", "ServiceUnavailable", "RequestTimeout", "Busy"})
_PASSING_CODES = _SLOW | _HARMED | _FAILED | _IN_THE_WAY
_PASSING_STATUS = frozenset({408, 429, 500, 502, 503, 504})
_PASSING = (
    *(boto.ConnectionError, boto.ConnectionClosedError, boto.HTTPClientError, boto.ReadTimeoutError),
    *(boto.ResponseStreamingError, boto.IncompleteReadError, boto.FlexibleChecksumError),
    *(ResponseParserError, TornAnswerError),
)
_LASTING = (boto.SSLError, boto.InvalidProxiesConfigError)

_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.ProfileNotFound,
    boto.TokenRetrievalError,
    boto.UnauthorizedSSOTokenError,
)
_WHERE = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile in AWS_PROFILE, or run under a role"
_WRONG = ("its credentials are wrong", f"Check the access key and its secret: {_WHERE}.")
_EXPIRED = ("its credentials have expired", "Renew them, and run it again.")
_ACCESS = {
    "InvalidAccessKeyId": _WRONG,
    "SignatureDoesNotMatch": _WRONG,
    "InvalidToken": _WRONG,
    "AuthFailure": _WRONG,
    "XAdminUserNotFound": _WRONG,  # versitygw's word.
    "ExpiredToken": _EXPIRED,
    "ExpiredTokenException": _EXPIRED,
    "RequestTimeTooSkewed": (
        "this machine's clock and the store's differ by more than the store allows",
        "Set the clock (NTP); blocks are judged by their age, so no job should run on a machine with a wrong one.",
    ),
    "RequestExpired": (
        "this machine's clock and the store's differ by more than the store allows",
        "Set the clock (NTP); blocks are judged by their age, so no job should run on a machine with a wrong one.",
    ),
    "NoSuchBucket": ("there is no such bucket", "Create it, or correct the bucket's address in the configuration."),
    "AccessDenied": (
        "these credentials may not do that",
        "Grant the role the rights that docs/how-to/use-s3.md lists for it.",
    ),
    "AllAccessDisabled": ("the bucket is closed", "Ask the bucket's owner."),
    "PermanentRedirect": ("the bucket is in another region", "Name its region in the address: ?region=…"),
    "AuthorizationHeaderMalformed": ("the region is another one", "Name the store's region in the address: ?region=…"),
    "IllegalLocationConstraintException": ("the region is another one", "Name its region in the address: ?region=…"),
    "KMS.DisabledException": ("the encryption key is disabled", "Enable it, or name another one: ?sse_kms_key=…"),
    "KMS.NotFoundException": ("there is no such encryption key", "Correct ?sse_kms_key=… in the address."),
    "NotImplemented": ("the store cannot do that", "Run `drystone bucket probe` to see what it lacks."),
}
_STATUS = {301: "PermanentRedirect", 401: "SignatureDoesNotMatch", 403: "AccessDenied", 501: "NotImplemented"}
"""What an answer without a body, as to HEAD, says."""


def code_of(error: Exception) -> str:
    """Return the store's own word for an error, "" if it did not answer at all."""
    return str(_answer(error).get("Error", {}).get("Code", ""))


def status_of(error: Exception) -> int:
    """Return the HTTP status of an error, 0 if the store did not answer at all."""
    return int(_answer(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def is_missing(error: Exception) -> bool:
    """Tell whether the error says that there is no such object."""
    code = code_of(error)
    return code in {"NoSuchKey", "NotFound"} or (status_of(error) == 404 and code in {"404", ""})  # noqa: PLR2004


def is_passing(error: Exception) -> bool:
    """Tell whether another attempt may succeed: nothing was answered, or the store is slow or failed inside."""
    if isinstance(error, boto.ClientError):
        return code_of(error) in _PASSING_CODES or status_of(error) in _PASSING_STATUS
    return isinstance(error, _PASSING) and not isinstance(error, _LASTING)


def explain(error: Exception, doing: str, address: S3Address) -> DrystoneError:
    """Return the error to raise in place of `error`, which kept us from `doing` something at `address`."""
    what = f"cannot {doing} in {address.place}"
    if isinstance(error, _CREDENTIALS):
        reason = _one_line(error)
        return BucketAccessError(f"{what}: no usable credentials ({reason}).", f"{_WHERE[0].upper()}{_WHERE[1:]}.")
    if isinstance(error, boto.EndpointConnectionError | boto.ConnectTimeoutError | boto.ProxyConnectionError):
        advice = "Check the endpoint in the address, that the store is up, and the network and proxy between."
        return BucketError(f"{what}: the store cannot be reached.", advice)
    if not isinstance(error, boto.ClientError):
        return BucketError(f"{what}: {_one_line(error)}.", "Another attempt may succeed; look at the network.")
    code = code_of(error)
    if code not in _ACCESS:
        code = _STATUS.get(status_of(error), code)
    if code in _ACCESS:
        reason, advice = _ACCESS[code]
        return BucketAccessError(f"{what}: {reason} ({code}).", advice)
    if code in _IN_THE_WAY:
        return UsageError(f"{what}: another object's key is in the way.", "This store needs other keys.")
    if code in _SLOW or status_of(error) in {429, 503}:
        return BucketError(f"{what}: the store asks to slow down ({code}).", "Run fewer jobs at once, or later.")
    message = without_secrets(str(_answer(error).get("Error", {}).get("Message", "")))
    return BucketError(f"{what}: {' '.join(f'{code} {message}'.split()).rstrip('.')}.", "Another attempt may succeed.")


def _answer(error: Exception) -> dict[str, Any]:
    return error.response if isinstance(error, boto.ClientError) else {}


def _one_line(error: Exception) -> str:
    # It may name a proxy, or an address that was signed.
    return without_secrets(" ".join(str(error).split())).rstrip(".")
