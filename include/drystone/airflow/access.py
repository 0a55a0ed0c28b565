"""Who Drystone's tasks are to an object store: the Airflow connection of its bucket, asked for where a task runs.

Secrets go from the connection to boto3 in this process, or into the environment of a child: never into an argument, a
template, a log, XCom, or a trigger's state. Source: the design, "Airflow: how people use it".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from drystone.bucket import Bucket, open_bucket
from drystone.config.load import Loaded
from drystone.config.model import DEFAULT_BUCKET_CONNECTION
from drystone.errors import ConfigError

if TYPE_CHECKING:
    from airflow.providers.amazon.aws.utils.connection_wrapper import AwsConnectionWrapper

    from drystone.bucket.s3_credentials import Credentials

# What boto3 and Hadoop take credentials from; AWS_PROFILE would win over them in some libraries.
_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
_RIVALS = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")
_S3 = "s3://"


@dataclass(frozen=True, slots=True)
class Access:
    """A bucket's address, and the credentials for it; None: boto3's own chain, or a bucket that needs none."""

    url: str
    credentials: Credentials | None = field(default=None, repr=False)

    def open(self) -> Bucket:
        """Return the bucket, which signs with these credentials; no I/O."""
        if self.credentials is None:
            return open_bucket(self.url)
        # boto3 takes a third of a second to import: only tasks of streams in S3 wait for it.
        from drystone.bucket.s3 import S3Bucket  # noqa: PLC0415

        return S3Bucket(self.url, credentials=self.credentials)

    def environment(self, base: Mapping[str, str]) -> dict[str, str]:
        """Return the environment of a child that is to work on the bucket: `base`, with these credentials in it."""
        if self.credentials is None:
            return dict(base)
        found = {name: value for name, value in base.items() if name not in {*_VARIABLES, *_RIVALS}}
        values = (self.credentials.access_key, self.credentials.secret_key, self.credentials.token)
        return found | {name: value for name, value in zip(_VARIABLES, values, strict=True) if value}


def access(loaded: Loaded, stream: str) -> Access:
    """Return the access to the bucket of a stream; call it where a task runs, and nowhere else."""
    return access_to(loaded.bucket_url(stream), loaded.bucket_connection(stream))


def access_to(url: str, connection: str) -> Access:
    """Return the access to the bucket at an address by the Airflow connection of this name.

    Only addresses in S3 need one. Without the connection `aws_default`, and with one that has neither keys nor role nor
    profile, boto3's own chain decides (environment, profile, role). Raises ConfigError if a connection of another name
    is missing, or one is of another kind.
    """
    if not is_s3(url):
        return Access(url)
    try:
        found = BaseHook.get_connection(connection)
    except AirflowNotFoundException:
        if connection == DEFAULT_BUCKET_CONNECTION:
            return Access(url)
        step = "Add a connection of type aws with that id, or correct `bucket_connection` in the configuration."
        raise ConfigError(f"Airflow has no connection {connection!r}, which the bucket needs.", step) from None
    if found.conn_type != "aws":
        step = "Make it one of type aws (Amazon Web Services)."
        raise ConfigError(f"The Airflow connection {connection!r} is of type {found.conn_type!r}.", step)
    return Access(url, _credentials(connection))


def source_of(known: AwsConnectionWrapper) -> str:
    """Return where a connection has its credentials from, in words without a secret; "" if it has none."""
    if known.role_arn:
        return f"role {known.role_arn}"
    if known.profile_name:
        return f"profile {known.profile_name}"
    return "an access key" if known.aws_access_key_id else ""


def is_s3(url: str) -> bool:
    """Tell whether the bucket at an address needs credentials."""
    return url.startswith(_S3)


def _credentials(connection: str) -> Credentials | None:
    """Return what the provider's hook makes of the connection: its keys, or those of the role that it names."""
    from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook  # noqa: PLC0415 -- see above

    from drystone.bucket.s3_credentials import Credentials  # noqa: PLC0415

    hook: AwsGenericHook[Any] = AwsGenericHook(aws_conn_id=connection, client_type="s3")
    if not source_of(hook.conn_config):
        return None
    # The hook has Airflow mask them in logs.
    frozen = hook.get_credentials()
    return Credentials(frozen.access_key, frozen.secret_key, frozen.token or "")
