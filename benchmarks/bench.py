"""What every measurement works with: its size, its cores, its folder, and one warm Spark."""

from __future__ import annotations

import contextlib
import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import duckdb
import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

from drystone.spark import session

_HEAP = "4g"


@dataclass
class Bench:
    """One run. `scale` 1: the sizes that the design names; `repeat`: rounds of each race; `cores`: for everybody."""

    scale: float
    repeat: int
    cores: int
    folder: Path
    class_path: list[Path] = field(default_factory=list)
    """More jars for Spark, if they are here before it starts."""
    _spark: SparkSession | None = field(default=None, repr=False)

    @cached_property
    def spark(self) -> SparkSession:
        """A Spark that runs already, for Drystone's jobs and for plain Spark: its start is not measured."""
        options = [
            f"--master local[{self.cores}] --driver-memory {_HEAP}",
            "--conf spark.ui.enabled=false",
            f"--conf spark.sql.warehouse.dir={shlex.quote(str(self.folder / 'warehouse'))}",
            "--conf spark.ui.showConsoleProgress=false",
        ]
        if self.class_path:
            options += [f"--driver-class-path {os.pathsep.join(map(shlex.quote, map(str, self.class_path)))}"]
        os.environ["PYSPARK_SUBMIT_ARGS"] = f"{' '.join(options)} pyspark-shell"
        self._spark, _ = session.start("benchmarks")
        self._spark.sparkContext.setLogLevel("ERROR")
        return self._spark

    def duckdb(self) -> duckdb.DuckDBPyConnection:
        """Return a DuckDB of as many threads as there are cores."""
        connection = duckdb.connect(config={"threads": self.cores, "temp_directory": str(self.folder / "duckdb")})
        connection.execute("SET TimeZone = 'UTC'")
        return connection

    def rows(self, full: int) -> int:
        """Return how many rows of `full` this scale takes."""
        return max(1000, round(full * self.scale))

    @property
    def machine(self) -> str:
        """The machine and the versions that the numbers hold for, for below a table."""
        gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
        return (
            f"{self.cores} cores ({platform.machine()}), {gigabytes:.0f} GiB; Spark {pyspark.__version__} "
            f"(local[{self.cores}], {_HEAP} heap), DuckDB {duckdb.__version__}, Arrow {pa.__version__}, "
            f"Python {platform.python_version()}; median of {self.repeat} interleaved rounds; scale {self.scale:g}"
        )


@contextlib.contextmanager
def opened(scale: float, repeat: int, cores: int, where: Path) -> Iterator[Bench]:
    """Keep this process and all that it starts to `cores` processors, in a folder of its own under `where`."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:cores])
    pa.set_cpu_count(cores)
    where.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=where))
    bench = Bench(scale, repeat, cores, folder)
    try:
        yield bench
    finally:
        if bench._spark is not None:  # noqa: SLF001 - its own: asking for `spark` would start one
            bench.spark.stop()
        shutil.rmtree(folder, ignore_errors=True)
        os.sched_setaffinity(0, allowed)
