"""Spark's reader on a bucket in S3, over S3A, as a user's own program has it."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from buckets import Spy
from lakes import STREAM
from pyspark.sql import SparkSession
from scenes import SCENES, seen

import drystone
from drystone.block import keys
from drystone.bucket import Bucket
from drystone.bucket.s3 import S3Bucket
from drystone.errors import UsageError
from drystone.spark import s3a
from drystone.testing.s3_server import S3Server
from drystone.testing.s3a import jars

pytestmark = pytest.mark.spark
HOW_TO = Path(__file__).parents[2] / "docs" / "how-to" / "s3-with-airflow-and-spark.md"
PROGRAM = """
import sys
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
import drystone

url, jars, result = sys.argv[1:]
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.jars", jars)
builder = builder.config("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")
spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
pq.write_table(drystone.read(spark, url, "events").toArrow(), result)
"""


class Elsewhere(Spy):
    """A local bucket that says that it is in S3."""

    @property
    def url(self) -> str:
        """An address in S3."""
        return "s3://nowhere?endpoint=http://127.0.0.1:1"

    def uri(self, key: str) -> str:
        """An object's address in S3."""
        return f"s3a://nowhere/{key}"


def copied(bucket: Bucket, server: S3Server) -> S3Bucket:
    """Copy a lake to the server, with a record that lets its blocks, which are young there, be read at once."""
    copy = S3Bucket(server.url(prefix=f"spark/{secrets.token_hex(4)}"), credentials=server.credentials)
    for info in bucket.list(""):
        data = bucket.get(info.key)
        if info.key == keys.record(STREAM):
            record = json.loads(data)
            record["times"] |= {"sync_delay": 1, "upload_timeout": 1, "max_lag": 0, "clock_skew": 0}
            data = json.dumps(record).encode()
        copy.put(info.key, data)
    return copy


def test_spark_reads_s3_as_every_reader_does(s3: S3Server, tmp_path: Path) -> None:
    """Every row once over S3A, by the address alone: endpoint, region and path style are in it, the secret is not."""
    scene = SCENES["a zombie's merge across another"](tmp_path)
    bucket = copied(scene.lake.bucket, s3)
    deadline = time.monotonic() + 30
    while seen(drystone.scan(bucket, STREAM)) != scene.truth:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    program, result = tmp_path / "program.py", tmp_path / "result.parquet"
    program.write_text(PROGRAM)
    done = subprocess.run(
        [sys.executable, program, bucket.url, ",".join(map(str, jars())), result],
        env=os.environ | s3.environment | {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert seen(pq.read_table(result)) == scene.truth


def test_a_spark_without_s3a_says_how_to_get_it(spark: SparkSession, tmp_path: Path) -> None:
    """Without the packages the error says which setting brings them, and not only the name of a Java class."""
    scene = SCENES["four blocks"](tmp_path)
    with pytest.raises(UsageError, match=r"S3A is not on its class path\. Set spark\.jars\.packages"):
        drystone.read(spark, Elsewhere(scene.lake.bucket), STREAM)


def test_settings_are_those_of_the_one_bucket() -> None:
    """What the address says is set for that bucket alone; what it does not say is left as the user has it."""
    assert s3a.options("file:///folder") == {}
    assert s3a.options("s3://plain/prefix") == {}
    assert s3a.options("s3://full?endpoint=http://127.0.0.1:7070&region=eu-north-1&path_style=true&sse=AES256") == {
        "fs.s3a.bucket.full.endpoint": "http://127.0.0.1:7070",
        "fs.s3a.bucket.full.endpoint.region": "eu-north-1",
        "fs.s3a.bucket.full.path.style.access": "true",
        "fs.s3a.bucket.full.connection.ssl.enabled": "false",
    }


def test_two_buckets_of_one_name_are_refused() -> None:
    """Hadoop would silently read the first one again: the second address of a name is refused in the same process."""
    s3a.options("s3://twice?endpoint=http://127.0.0.1:1")
    s3a.options("s3://twice/other/prefix?endpoint=http://127.0.0.1:1")
    with pytest.raises(UsageError, match="another bucket of the name 'twice'"):
        s3a.options("s3://twice?endpoint=http://127.0.0.1:2")


def test_the_page_names_the_same_packages() -> None:
    """What people copy from the how-to is what the tests use."""
    page = HOW_TO.read_text()
    assert f"spark.jars.packages  {','.join(s3a.PACKAGES)}\n" in page
    assert f"spark.jars.excludes  {s3a.EXCLUDED}\n" in page
