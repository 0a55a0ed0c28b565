"""The Spark session of a job."""

from __future__ import annotations

import os
import sys
import time

from pyspark.sql import SparkSession


def start(app: str) -> tuple[SparkSession, int]:
    """Return the session (UTC, ANSI SQL), and how many ms it took from the launch of the JVM until it was there."""
    # Workers run the driver's Python, or whatever else was asked for: it must be the one that has Drystone.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.appName(app)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.ansi.enabled", "true")
        .config("spark.sql.csv.parser.columnPruning.enabled", "false")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "65536")
        # Without kafka in it: Spark's second reader gives rows as they are, the first makes objects of them and back.
        .config("spark.sql.sources.useV1SourceList", "avro,csv,json,orc,parquet,text")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("WARN")
    launched = spark.sparkContext._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean().getStartTime()  # type: ignore[union-attr] # noqa: SLF001
    return spark, int(time.time() * 1000) - int(launched)
