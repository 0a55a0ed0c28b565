"""Addresses of S3 buckets: `s3://bucket/prefix?endpoint=…&region=…&path_style=true&sse=AES256`.

The settings of a store are part of its address, so that one text is all that a job, a form or a command needs.
Credentials never are: an address is shown in plans, reports and logs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import parse_qsl, quote, urlsplit

from drystone.bucket.names import MAX_KEY_BYTES, check_key, is_key
from drystone.errors import ConfigError, UsageError

FORM = "s3://bucket/prefix?endpoint=https://…&region=…&path_style=true&sse=AES256"
ENCRYPTIONS = ("AES256", "aws:kms", "aws:kms:dsse")
_SETTINGS = ("endpoint", "region", "path_style", "sse", "sse_kms_key")
_BUCKET = re.compile(r"[A-Za-z0-9._-]{3,63}")
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}")
_ADVICE = f"Use {FORM}; settings: {', '.join(_SETTINGS)}. Credentials come from the environment, a profile or a role."


@dataclass(frozen=True, slots=True)
class S3Address:
    """Where a bucket is, and how to speak to it. What is empty is left to boto3's own configuration.

    `prefix` has no slash at its ends. `sse` and `sse_kms_key` are sent with every write; without them the store's own
    default holds.
    """

    bucket: str
    prefix: str = ""
    endpoint: str = ""
    region: str = ""
    path_style: bool = False
    sse: str = ""
    sse_kms_key: str = ""

    @property
    def url(self) -> str:
        """The address in one form, which `parse` reads back to an equal one."""
        place = f"s3://{self.bucket}/{self.prefix}".rstrip("/")
        path_style = "true" if self.path_style else ""
        values = (self.endpoint, self.region, path_style, self.sse, self.sse_kms_key)
        settings = [f"{name}={quote(value, safe=':/')}" for name, value in zip(_SETTINGS, values, strict=True) if value]
        return f"{place}?{'&'.join(settings)}" if settings else place

    @property
    def place(self) -> str:
        """The bucket and prefix for messages, and the endpoint if one is set."""
        place = f"s3://{self.bucket}/{self.prefix}".rstrip("/")
        return f"{place} at {self.endpoint}" if self.endpoint else place

    @property
    def root(self) -> str:
        """What all full keys begin with: the prefix and a slash, or nothing."""
        return f"{self.prefix}/" if self.prefix else ""

    def full(self, key: str) -> str:
        """Return the key that the store knows an object by; raise UsageError if it cannot be one."""
        whole = self.root + check_key(key)
        if len(whole.encode()) > MAX_KEY_BYTES:
            message = f"{key!r} below {self.place} makes a key of more than {MAX_KEY_BYTES:,} bytes."
            raise UsageError(message, "Use a shorter prefix or key.")
        return whole


def parse(url: str) -> S3Address:
    """Return the address that `url` spells; raise ConfigError, which never repeats a value that may be a secret."""
    place, _, query = url.removeprefix("s3://").partition("?")
    bucket, _, prefix = place.partition("/")
    prefix = prefix.rstrip("/")
    if "@" in bucket or ("@" in prefix and not _BUCKET.fullmatch(bucket)):
        # Many a secret has a slash in it: then its second half looks like a prefix.
        _refuse("s3://…@…", "credentials do not belong in an address")
    shown = f"s3://{place}"
    if not _BUCKET.fullmatch(bucket):
        _refuse(shown, f"{bucket!r} cannot be the name of a bucket")
    if prefix and not is_key(prefix):
        _refuse(shown, f"{prefix!r} cannot be a prefix of keys")
    settings = _settings(shown, query)
    address = S3Address(
        bucket,
        prefix,
        endpoint=_endpoint(shown, settings.get("endpoint", "")),
        region=settings.get("region", ""),
        path_style=_flag(shown, settings.get("path_style", "false")),
        sse=settings.get("sse", ""),
        sse_kms_key=settings.get("sse_kms_key", ""),
    )
    _check(shown, address)
    return address


def _settings(shown: str, query: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True) if query else []
    except ValueError:
        _refuse(shown, "its settings are not of the form name=value&name=value")
    names = [name for name, _ in pairs]
    for name in names:
        if name not in _SETTINGS:
            _refuse(shown, f"unknown setting {name!r}")
        if names.count(name) > 1:
            _refuse(shown, f"setting {name} is given twice")
    for name, value in pairs:
        if not value:
            _refuse(shown, f"setting {name} is empty")
    return dict(pairs)


def _endpoint(shown: str, endpoint: str) -> str:
    if not endpoint:
        return ""
    try:
        parts = urlsplit(endpoint)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        good = False
    if not good:
        _refuse(shown, "endpoint must be http://host:port or https://host")
    if "@" in parts.netloc:
        _refuse(shown, "credentials do not belong in an endpoint")
    if parts.query or parts.fragment:
        _refuse(shown, "endpoint must end with its host or path")
    return endpoint.rstrip("/")


def _flag(shown: str, value: str) -> bool:
    if value not in {"true", "false"}:
        _refuse(shown, "path_style must be true or false")
    return value == "true"


def _check(shown: str, address: S3Address) -> None:
    if address.region and not _REGION.fullmatch(address.region):
        _refuse(shown, "region must be letters, digits and hyphens")
    if address.sse and address.sse not in ENCRYPTIONS:
        _refuse(shown, f"sse must be one of {', '.join(ENCRYPTIONS)}")
    if address.sse_kms_key and not address.sse.startswith("aws:kms"):
        _refuse(shown, "sse_kms_key needs sse=aws:kms")


def _refuse(shown: str, problem: str) -> NoReturn:
    raise ConfigError(f"bucket {shown!r}: {problem}.", _ADVICE)
