"""Spark's workers, as the verbs see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pyspark.sql import SparkSession

from drystone.clock import Clock, system

T = TypeVar("T")
R = TypeVar("R")


class SparkWorkers:
    """Runs each task as one of Spark's, which repeats those that fail. See `drystone.engine.job.Workers`."""

    def __init__(self, spark: SparkSession) -> None:
        """`spark`: the session that tasks run in."""
        self._spark = spark

    @property
    def clock(self) -> Clock:
        """The clock of the machine that a task runs on."""
        return system

    @property
    def parallelism(self) -> int:
        """Spark's default parallelism: the cores of all workers."""
        return self._spark.sparkContext.defaultParallelism

    def expect(self, tasks: int, size: int = 0) -> None:
        """Take on anything."""

    def map(self, function: Callable[[T], R], tasks: Sequence[T], shares: int = 0) -> list[R]:
        """See `Workers.map`."""
        return self._spark.sparkContext.parallelize(tasks, shares or len(tasks)).map(function).collect()
