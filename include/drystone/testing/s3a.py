"""S3A's jars for tests."""

from __future__ import annotations

from pathlib import Path

from drystone.spark.s3a import EXCLUDED, HADOOP, PACKAGES, SDK
from drystone.testing.jars import fetched


def jars() -> list[Path]:
    """Return S3A's jars for `spark.driver.extraClassPath`, 19 MB; see `fetched`."""
    return fetched(f"s3a-jars-{HADOOP}-{SDK}", PACKAGES, [EXCLUDED])
