"""What Drystone's tasks need of Airflow: pools and connections; and which of them are not there."""

from __future__ import annotations

from airflow.models import Pool
from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from drystone.airflow.access import is_s3
from drystone.airflow.pools import SPARK_POOL, remover_pool
from drystone.config.load import Loaded
from drystone.config.model import DEFAULT_BUCKET_CONNECTION


def pools_of(loaded: Loaded) -> list[tuple[str, int, str]]:
    """Return the name, slots and description of each pool that the configuration's tasks wait in."""
    pools = [(SPARK_POOL, loaded.config.spark.max_parallel_jobs, "Spark jobs of Drystone that run at once")]
    return pools + [(remover_pool(name), 1, f"The one remover of stream {name}") for name in loaded.config.streams]


def bucket_connections(loaded: Loaded) -> list[str]:
    """Return the names of the connections of buckets in S3."""
    streams = loaded.config.streams
    return sorted({loaded.bucket_connection(name) for name in streams if is_s3(loaded.bucket_url(name))})


def missing(loaded: Loaded) -> list[tuple[str, str]]:
    """Return (`pool` or `connection`, name) of all that Airflow lacks; it asks Airflow's own database.

    The connection `aws_default` may be missing: then boto3's own chain decides.
    """
    there = {pool.pool for pool in Pool.get_pools()}
    found = [("pool", name) for name, _, _ in pools_of(loaded) if name not in there]
    needed = [loaded.config.spark.connection, *bucket_connections(loaded)]
    return found + [
        ("connection", name) for name in needed if name != DEFAULT_BUCKET_CONNECTION and not _is_there(name)
    ]


def _is_there(connection: str) -> bool:
    try:
        Connection.get_connection_from_secrets(connection)
    except AirflowNotFoundException:
        return False
    return True
