"""Drystone's configuration on the cluster: a given one, its bucket on the S3 server, its jobs on Spark's workers."""

from __future__ import annotations

import os
from pathlib import Path

import yaml

from drystone.testing.cluster.spark import CONF


def write(template: Path, folder: Path, bucket: str) -> Path:
    """Write it to `folder`, and return its path.

    `folder` must be as deep as the template's: its relative paths (of input, which all workers of this machine see)
    are kept as they are.
    """
    found = yaml.safe_load(template.read_text())
    found["bucket"] = bucket
    spark = found.setdefault("spark", {})
    spark["shared_filesystem"] = True
    spark["conf"] = spark.get("conf", {}) | CONF
    path = folder / "drystone.yaml"
    # Programs that run read it: never half of it.
    written = path.with_suffix(".new")
    written.write_text(yaml.safe_dump(found, sort_keys=False))
    os.replace(written, path)  # noqa: PTH105 -- as above
    return path
