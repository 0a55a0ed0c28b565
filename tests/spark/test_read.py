"""Spark's own Parquet reader sees the same rows as every other reader."""

from __future__ import annotations

from pathlib import Path

import pytest
from lakes import STREAM, make_lake, rows
from pyspark.sql import SparkSession
from scenes import SCENES, Scene, Seen, seen

import drystone
from drystone.bucket import MemoryBucket
from drystone.engine.record import apply_config
from drystone.errors import UsageError
from drystone.reader.scanning import to_ms

pytestmark = pytest.mark.spark


def with_spark(spark: SparkSession, scene: Scene, *arguments: object, **options: object) -> Seen:
    """Return what Spark sees."""
    return seen(drystone.read(spark, scene.lake.bucket, STREAM, *arguments, **options).toArrow())  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SCENES)
def test_a_dataframe_is_exact(spark: SparkSession, name: str, tmp_path: Path) -> None:
    """Every row once, and none that was taken away."""
    scene = SCENES[name](tmp_path)
    assert with_spark(spark, scene) == scene.truth


def test_ranges_and_columns(spark: SparkSession, tmp_path: Path) -> None:
    """A half-open time range, columns in the order asked for, and no column of Drystone's own."""
    scene = SCENES["everything at once"](tmp_path)
    times = sorted({to_ms(row["time"]) or 0 for row in scene.truth})
    start, end = times[len(times) // 4], times[3 * len(times) // 4]
    assert with_spark(spark, scene, start, end) == [r for r in scene.truth if start <= (to_ms(r["time"]) or 0) < end]
    frame = drystone.read(spark, scene.lake.bucket, STREAM, columns=["ratio", "count"])
    assert frame.columns == ["ratio", "count"]
    assert frame.count() == len(scene.truth)
    assert drystone.read(spark, scene.lake.bucket, STREAM, end=0).count() == 0
    with pytest.raises(UsageError, match=r"no column town\. It has time, city"):
        drystone.read(spark, scene.lake.bucket, STREAM, columns=["town"])


def test_a_generation_is_chosen(spark: SparkSession, tmp_path: Path) -> None:
    """The newest, or the one that is named."""
    scene = SCENES["four blocks"](tmp_path)
    lake = scene.lake
    old, lake.config = lake.config, lake.config.model_copy(update={"generation": 1})
    apply_config(lake.bucket, STREAM, lake.config)
    lake.ingest("other", rows(5))
    assert with_spark(spark, scene, generation=old.generation) == scene.truth
    assert drystone.read(spark, lake.bucket, STREAM).count() == rows(5).num_rows


def test_an_empty_stream_is_an_empty_dataframe(spark: SparkSession, tmp_path: Path) -> None:
    """A stream without a block has no columns yet: any that are asked for give an empty DataFrame, and no error."""
    lake = make_lake(tmp_path)
    assert drystone.read(spark, lake.bucket, STREAM, columns=["city"]).count() == 0


def test_a_folder_with_a_pattern_in_its_name_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Spark would take the name for a pattern, and read something else; a folder with blanks is read as it is."""
    scene = SCENES["four blocks"](tmp_path)
    fine, odd = tmp_path / "a b %20", tmp_path / "a [1]"
    for folder in (fine, odd):
        folder.mkdir()
        folder.joinpath("bucket").symlink_to(tmp_path / "bucket")
    assert drystone.read(spark, f"file://{fine}/bucket", STREAM).count() == len(scene.truth)
    with pytest.raises(UsageError, match="takes '\\[' in a name for a pattern"):
        drystone.read(spark, f"file://{odd}/bucket", STREAM)


def test_a_stream_that_is_not_there_is_named(spark: SparkSession) -> None:
    """The error says which stream, and which bucket."""
    with pytest.raises(UsageError, match="memory://nothing has no stream 'events'"):
        drystone.read(spark, MemoryBucket("nothing"), STREAM)
