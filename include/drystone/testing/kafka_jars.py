"""The jars of a Kafka broker, and of Spark's Kafka source, for tests, demos and benchmarks."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from drystone.errors import UsageError
from drystone.testing.jars import fetched

KAFKA = "4.3.1"
SPARK = "4.2.0"
TOKENS = "4.0.0"
_SCALA = "2.13"
_OURS = ("scala-library", "slf4j-api", "log4j-slf4j2-impl", "log4j-api", "log4j-core")
"""What Spark itself has: Ivy leaves Scala's library out for its sake, and the broker's log needs somewhere to go."""


def broker_jars() -> list[Path]:
    """Return the class path of a broker, 38 MB beside what Spark has; see `fetched`."""
    jars = fetched(f"kafka-{KAFKA}", [f"org.apache.kafka:kafka_{_SCALA}:{KAFKA}"])
    spark = find_spec("pyspark")
    if spark is None or spark.origin is None:
        raise UsageError("a broker uses some of Spark's jars, and there is no Spark.", "Run 'make setup'.")
    ours = [jar for name in _OURS for jar in (Path(spark.origin).parent / "jars").glob(f"{name}-*.jar")]
    return [*ours, *(jar for jar in jars if not any(f"_{name}-" in jar.name for name in _OURS))]


def source_jars() -> list[Path]:
    """Return the jars of Spark's Kafka source for `spark.driver.extraClassPath`, 14 MB; see `fetched`.

    Users name one package, `org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0`, in spark.jars.packages. Its helper for
    delegation tokens is fetched in an older version here: not every mirror of Maven Central has the newer ones.
    """
    # Spark has all of Hadoop itself.
    hadoop = "org.apache.hadoop:hadoop-client-runtime"
    tokens = f"org.apache.spark:spark-token-provider-kafka-0-10_{_SCALA}"
    source = f"org.apache.spark:spark-sql-kafka-0-10_{_SCALA}:{SPARK}"
    return [
        *fetched(f"spark-kafka-{SPARK}", [source], [hadoop, tokens]),
        *fetched(f"spark-kafka-tokens-{TOKENS}", [f"{tokens}:{TOKENS}"], [hadoop, "org.apache.kafka:kafka-clients"]),
    ]
