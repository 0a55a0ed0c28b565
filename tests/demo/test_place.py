"""Where the demo's bucket is."""

from __future__ import annotations

import shutil
from pathlib import Path

import home
import place
import pytest

from drystone.bucket import LocalBucket
from drystone.bucket.s3 import S3Bucket
from drystone.config.load import load
from drystone.testing.cluster.config import write
from drystone.testing.cluster.spark import CONF

URL = "s3://bucket?endpoint=http://127.0.0.1:1&region=us-east-1&path_style=true"


def test_by_default_it_is_a_folder_of_the_checkout() -> None:
    """The demo's own configuration is used as it is, and Airflow needs to be told nothing."""
    with place.place("local") as where:
        assert where.config == home.CONFIG
        assert isinstance(where.bucket(), LocalBucket)


def test_in_s3_only_the_bucket_is_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The configuration for S3 differs by the bucket's address alone, and finds the same input; what is there stays."""
    monkeypatch.setattr(place, "BUILD", tmp_path / "build" / "demo")
    # As deep below its root as the original: both have the same relative paths.
    monkeypatch.setattr(place, "_OF_S3", home.BUILD.parent / f"demo-s3-{tmp_path.name}.yaml")
    try:
        with place.place("s3") as where:
            bucket = where.bucket()
            assert isinstance(bucket, S3Bucket)
            ours, theirs = load(where.config), load(home.CONFIG)
            assert ours.config.model_copy(update={"bucket": theirs.config.bucket}) == theirs.config
            assert (ours.path.parent / ours.stream("flights").files.path).resolve().parent == home.DATA
            assert ours.bucket_url("flights") == bucket.url
            bucket.put("left", b"by an earlier demo")
        with place.place("s3") as again:
            assert again.bucket().get("left") == b"by an earlier demo"
    finally:
        place._OF_S3.unlink(missing_ok=True)


def test_on_the_cluster_bucket_and_spark_are_others(tmp_path: Path) -> None:
    """The configuration of the cluster differs by the bucket and by what jobs take of Spark; its input is the same."""
    (tmp_path / "demo").mkdir()
    (tmp_path / ".cluster").mkdir()
    shutil.copy(home.CONFIG, tmp_path / "demo")
    theirs = load(tmp_path / "demo" / home.CONFIG.name)
    ours = load(write(theirs.path, tmp_path / ".cluster", URL))
    assert ours.config.bucket == URL
    assert ours.config.spark.shared_filesystem
    assert ours.config.spark.conf == theirs.config.spark.conf | CONF
    same = {"bucket": theirs.config.bucket, "spark": theirs.config.spark}
    assert ours.config.model_copy(update=same) == theirs.config
    for name in ours.config.streams:
        paths = [(loaded.path.parent / loaded.stream(name).files.path).resolve() for loaded in (ours, theirs)]
        assert paths[0] == paths[1]


def test_another_kind_is_refused() -> None:
    """A word that names no place ends the demo before anything is started."""
    with pytest.raises(SystemExit, match="gcs: no such place for the demo; known: BUCKET=local"), place.place("gcs"):
        pass
