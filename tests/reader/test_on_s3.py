"""Readers on S3: every scene that is read from a disk reads the same from a bucket."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from lakes import STREAM
from s3_buckets import Dated
from scenes import SCENES, Scene, seen

import drystone
from drystone.testing.s3_server import S3Server


def moved(scene: Scene, server: S3Server) -> Dated:
    """Return the scene's objects in S3, with their times."""
    moment = [0]
    bucket = Dated(server, lambda: moment[0])
    for found in scene.lake.bucket.list(""):
        moment[0] = found.modified
        bucket.put(found.key, scene.lake.bucket.get(found.key))
    return bucket


@pytest.mark.parametrize("name", SCENES)
def test_readers_are_exact_on_s3_too(name: str, s3: S3Server, tmp_path: Path) -> None:
    """`drystone.scan` gives every row once, and none that is gone; `drystone.files` names the objects."""
    scene = SCENES[name](tmp_path)
    bucket = moved(scene, s3)
    assert seen(drystone.scan(bucket, STREAM)) == scene.truth
    here = Counter((read.size, read.filter) for read in drystone.files(scene.lake.bucket, STREAM))
    there = list(drystone.files(bucket, STREAM))
    assert Counter((read.size, read.filter) for read in there) == here
    assert all(read.uri.startswith(f"s3a://drystone/{bucket._address.prefix}/{STREAM}/") for read in there)
