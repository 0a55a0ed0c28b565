"""Messages of Kafka into blocks: the upload job, against the same Spark reading the topic and writing plain Parquet."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that everybody uses

from benchmarks import kafka_topics, peers
from benchmarks.bench import Bench
from benchmarks.kafka_topics import COLUMNS
from benchmarks.lake import JobFailedError, parquet_rows
from benchmarks.processes import Finished, watch
from benchmarks.race import Contender, race, versus_first
from benchmarks.table import Table
from drystone import jobs
from drystone.bucket import open_bucket
from drystone.config.load import Loaded, load
from drystone.jobs import JobResult, UploadRequest
from drystone.spark import jobs as spark_jobs
from drystone.spark.types import ddl
from drystone.testing.kafka import KafkaBroker, kafka_broker
from drystone.testing.kafka_jars import source_jars

MESSAGES = 5_000_000
PARTITIONS = 4
GOAL = 0.8
"""What the design asks for: of the rate of plain Spark."""
SIZES = (0.0002, 0.05, 0.2)
"""Parts of the messages that one plan holds, for its memory. The first is what any worker takes."""
_TOPIC = "flights"
_DEFAULT = "avro,csv,json,kafka,orc,parquet,text"
"""Which sources Spark reads by its first interface, if nobody says otherwise."""
_MIB = 2**20


@dataclass(frozen=True)
class Streams:
    """A folder with a configuration of a backup, a partition and a dead-letter stream, their bucket beside it."""

    folder: Path

    @property
    def loaded(self) -> Loaded:
        """The configuration."""
        return load(self.folder / "drystone.yaml")

    def chunks(self, stream: str) -> list[Path]:
        """Return all chunk files of a stream's blocks."""
        return sorted((self.folder / "bucket" / stream).glob("*/chunks/*.parquet"))

    @property
    def rows(self) -> int:
        """Rows of all blocks of all streams."""
        return parquet_rows(path for stream in ("backup", "flights", "dead") for path in self.chunks(stream))


def make_streams(folder: Path, servers: str, topic: str, max_bytes: str = "200MB") -> Streams:
    """Write the configuration of streams without blocks."""
    ingest = {"kind": "kafka", "bootstrap_servers": servers, "topics": topic, "max_bytes": max_bytes}
    parsed = {"group": "partition", "dead_letters": "dead", "parser": {"format": "json"}}
    streams = {
        "backup": {"labels": {"group": "backup"}, "ingest": {**ingest, "group": "backup"}},
        "flights": {
            "labels": {"group": "partition"},
            "time_column": "event_time",
            "sort_key": ["event_time"],
            "schema": dict(COLUMNS),
            "ingest": {**ingest, **parsed},
        },
        "dead": {"labels": {"group": "dead"}, "ingest": {"kind": "dead_letters"}},
    }
    folder.mkdir(parents=True, exist_ok=True)
    document = {"version": 1, "bucket": "file:bucket", "streams": streams}
    (folder / "drystone.yaml").write_text(yaml.safe_dump(document, sort_keys=False))
    return Streams(folder)


def measure(bench: Bench) -> list[Table]:
    """Return a table for each group, and one of memory."""
    bench.class_path += source_jars()
    count = bench.rows(MESSAGES)
    with kafka_broker(bench.folder / "kafka") as broker:
        size = kafka_topics.fill(broker, _TOPIC, count, PARTITIONS)
        about = f"{count:,} JSON messages, {size / 1e6:.0f} MB, {PARTITIONS} partitions"
        tables = []
        for group, title in (("backup", "Kafka, backup"), ("flights", "Kafka, partition")):
            contenders = _contenders(bench, broker, group)
            race(contenders, 1, bench.folder / "race")
            results = race(contenders, bench.repeat, bench.folder / "race")
            table = versus_first(f"{title}: {about}, into blocks", results)
            rates = ", ".join(f"{each.contender.name} {count / each.median:,.0f}" for each in results)
            table.notes += [f"Messages a second: {rates}."]
            tables.append(table)
        tables[0].notes += [
            "Drystone's plans are of 200 MB; each task uploads a block for each day: Parquet, index and meta.json.",
            "One round before the measured ones warms all of them up. The broker runs on the same processors.",
        ]
        tables.append(_memory(bench, broker))
    return tables


def _contenders(bench: Bench, broker: KafkaBroker, stream: str) -> list[Contender]:
    servers = broker.bootstrap_servers

    def prepare(folder: Path) -> None:
        make_streams(folder / "streams", servers, _TOPIC)

    def upload(folder: Path) -> None:
        loaded = Streams(folder / "streams").loaded
        result = spark_jobs.run("upload", loaded, stream, "bench", UploadRequest(force=True), bench.spark)
        if not result.ok:
            raise JobFailedError(f"upload: {result.error}")

    def uploaded(folder: Path, _: object) -> int:
        return Streams(folder / "streams").rows

    def written(folder: Path, _: object) -> int:
        return parquet_rows(folder.rglob("*.parquet"))

    def plain(folder: Path) -> None:
        peers.writer(_read(bench, servers)).parquet(str(folder / "out"))

    def tuned(folder: Path) -> None:
        peers.writer(_read(bench, servers, tuned=True)).parquet(str(folder / "out"))

    def parsed(folder: Path) -> None:
        peers.writer(_parsed(_read(bench, servers))).parquet(str(folder / "out"))

    found = [
        Contender("Drystone, upload", upload, uploaded, prepare),
        Contender("plain Spark, messages as they are", plain, written, goal=GOAL),
        Contender("the same, by the reader that Drystone has Spark take", tuned, written),
    ]
    return found if stream == "backup" else [*found, Contender("plain Spark, from_json", parsed, written)]


def _read(bench: Bench, servers: str, *, tuned: bool = False) -> DataFrame:
    session = bench.spark
    if not tuned:
        session = session.newSession()
        session.conf.set("spark.sql.sources.useV1SourceList", _DEFAULT)
    source = session.read.format("kafka").option("kafka.bootstrap.servers", servers).option("subscribe", _TOPIC)
    source = source.option("kafka.isolation.level", "read_committed").option("includeHeaders", "true")
    return source.load().select("topic", "partition", "offset", "timestamp", "key", "value", "headers")


def _parsed(frame: DataFrame) -> DataFrame:
    told = F.from_json(F.col("value").cast("string"), ddl(COLUMNS)).alias("told")
    return frame.select(told, "topic", "partition", "offset").select("told.*", "topic", "partition", "offset")


def _memory(bench: Bench, broker: KafkaBroker) -> Table:
    """Measure a worker whose one plan is a whole topic of one partition, for topics of different size."""
    table = Table(
        "Kafka, memory: one plan, by spark-submit",
        ("group", "messages", "plan MB", "seconds", "whole tree MiB", "JVM", "biggest worker (RSS)"),
    )
    workers: dict[str, list[int]] = {"backup": [], "flights": []}
    for part in SIZES:
        count = max(100, round(bench.rows(MESSAGES) * part))
        topic = f"memory-{count}"
        size = kafka_topics.fill(broker, topic, count, 1)
        for stream, taken in workers.items():
            streams = make_streams(bench.folder / topic / stream, broker.bootstrap_servers, topic, "1TB")
            finished, result = _submit(bench, streams, stream)
            peaks = finished.peaks
            taken.append(peaks.worker)
            shown = tuple(f"{each / _MIB:.0f}" for each in (peaks.total, peaks.jvm, peaks.worker))
            table.rows.append((stream, f"{count:,}", f"{size / 1e6:.0f}", f"{result.work_ms / 1000:.1f}", *shown))
            shutil.rmtree(streams.folder)
    times = SIZES[2] / SIZES[1]
    grown = ", ".join(f"{stream} {taken[2] / taken[1]:.2f} times" for stream, taken in workers.items())
    budget = make_streams(bench.folder / "any", broker.bootstrap_servers, _TOPIC).loaded.stream("flights").compaction
    used = max(taken[2] - taken[0] for taken in workers.values())
    verdict = "met" if used <= budget.memory_per_task else "**missed**"
    table.notes += [
        f"From the second size to the third a plan grows {times:.0f} times, the biggest worker: {grown}.",
        f"The biggest plan takes {used / _MIB:.0f} MiB more than next to none.",
        f"memory_per_task allows {budget.memory_per_task // _MIB} MiB more: {verdict}.",
        "Sampled every 50 ms. Proportional set sizes, so that shared pages count once; RSS for the biggest worker.",
    ]
    return table


def _submit(bench: Bench, streams: Streams, stream: str) -> tuple[Finished, JobResult]:
    """Run the upload in a Spark of its own, watched."""
    jars = os.pathsep.join(map(str, source_jars()))
    command = [
        str(Path(sys.executable).parent / "spark-submit"),
        *("--master", f"local[{bench.cores}]", "--driver-memory", "1g", "--conf", "spark.ui.enabled=false"),
        *("--driver-class-path", jars),
        *(str(jobs.script("upload")), "--config", str(streams.loaded.path), "--stream", stream),
        *("--run", "measured", "--request", UploadRequest(force=True).model_dump_json()),
    ]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    path = os.pathsep.join([str(Path(sys.executable).parent), environment["PATH"]])
    finished = watch(command, environment | {"PATH": path, "PYSPARK_PYTHON": sys.executable})
    if finished.code:
        raise JobFailedError(finished.said[-2000:])
    raw = open_bucket(streams.loaded.bucket_url(stream)).get(jobs.result_key(stream, "measured"))
    return finished, JobResult.model_validate_json(raw)
