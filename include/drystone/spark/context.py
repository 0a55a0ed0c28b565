"""What every job on Spark works with."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import SparkSession

from drystone.config.load import Loaded
from drystone.engine.job import Job


@dataclass(kw_only=True)
class JobContext(Job):
    """A job's surroundings, with the session that it runs in and the configuration file that it was started with."""

    loaded: Loaded
    spark: SparkSession
