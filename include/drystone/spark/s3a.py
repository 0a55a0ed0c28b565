"""Spark's way to a bucket in S3: Hadoop's S3A file system, told what the bucket's address says.

Only `drystone.read` needs it: it has Spark's own Parquet reader read the blocks. Jobs go through boto3.
"""

from __future__ import annotations

from threading import Lock

from drystone.errors import UsageError

HADOOP = "3.5.0"
"""The Hadoop of PySpark 4.2.0: S3A must be of the same version."""
SDK = "2.35.4"
PACKAGES = (
    f"org.apache.hadoop:hadoop-aws:{HADOOP}",
    *(f"software.amazon.awssdk:{name}:{SDK}" for name in ("s3", "s3-transfer-manager", "sts")),
    *(f"software.amazon.awssdk:{name}:{SDK}" for name in ("apache-client", "netty-nio-client")),
    "software.amazon.s3.analyticsaccelerator:analyticsaccelerator-s3:1.3.1",
)
"""For spark.jars.packages: S3A and those parts of Amazon's SDK that it uses, 19 MB."""
EXCLUDED = "software.amazon.awssdk:bundle"
"""For spark.jars.excludes: all parts of the SDK in one file of 660 MB, which hadoop-aws asks for."""

_CLASS = "org.apache.hadoop.fs.s3a.S3AFileSystem"
_ADVICE = (
    "Set spark.jars.packages and spark.jars.excludes as docs/how-to/s3-with-airflow-and-spark.md says, "
    "before the session is made."
)

_known: dict[str, str] = {}
_lock = Lock()


def options(url: str) -> dict[str, str]:
    """Return the options of a Spark reader by which S3A finds the bucket at this address; none for other kinds.

    They are those of that one bucket (`fs.s3a.bucket.<name>.…`), so that others keep theirs. Credentials are S3A's own
    affair: the environment of driver and executors, or a role. Raises UsageError if this process has read a bucket of
    the same name elsewhere: Hadoop keeps one client per name.
    """
    if not url.startswith("s3://"):
        return {}
    # boto3 comes with it, and takes a third of a second to import.
    from drystone.bucket.s3_address import parse  # noqa: PLC0415

    address = parse(url)
    settings = {
        "endpoint": address.endpoint,
        "endpoint.region": address.region,
        "path.style.access": "true" if address.path_style else "",
        "connection.ssl.enabled": "false" if address.endpoint.startswith("http:") else "",
    }
    found = {f"fs.s3a.bucket.{address.bucket}.{name}": value for name, value in settings.items() if value}
    with _lock:
        if _known.setdefault(address.bucket, str(found)) != str(found):
            msg = f"this process has read another bucket of the name {address.bucket!r}, with other settings."
            raise UsageError(msg, "Hadoop keeps one client per name: read this one in a process of its own.")
    return found


def explain(error: Exception) -> UsageError | None:
    """Return what to raise in place of Spark's error if S3A is missing; None for any other error."""
    if f"{_CLASS} not found" not in str(error):
        return None
    return UsageError("Spark cannot read s3a:// here: Hadoop's S3A is not on its class path.", _ADVICE)
