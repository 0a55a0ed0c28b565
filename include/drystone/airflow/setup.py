"""What Airflow has to know before the first run: pools and the Spark connection.

Airflow leaves a task whose pool is missing scheduled for ever, and takes a missing Spark connection for YARN. So they
are created here, from the configuration file, again and again without harm.
"""

from __future__ import annotations

from airflow.configuration import conf
from airflow.models import Pool
from airflow.models.connection import Connection
from airflow.sdk.exceptions import AirflowNotFoundException
from airflow.utils.db import check_migrations
from airflow.utils.session import create_session

from drystone.airflow.pools import SPARK_POOL, remover_pool
from drystone.config.load import Loaded
from drystone.errors import UsageError

LOCAL_MASTER = "local[*]"


def setup(loaded: Loaded) -> list[str]:
    """Create or correct the pools, create the Spark connection if it is missing; return a line for each thing.

    A connection that is there is left as it is. Raises UsageError if Airflow's database is not ready.
    """
    check_database()
    pools = [(SPARK_POOL, loaded.config.spark.max_parallel_jobs, "Spark jobs of Drystone that run at once")]
    pools += [(remover_pool(name), 1, f"The one remover of stream {name}") for name in loaded.config.streams]
    lines = [_pool(name, slots, description) for name, slots, description in pools]
    return [*lines, _connection(loaded.config.spark.connection)]


def check_database() -> None:
    """Raise UsageError unless Airflow's database has the tables of this Airflow."""
    try:
        check_migrations(1)  # type: ignore[no-untyped-call]
    except TimeoutError:
        where = conf.get("database", "sql_alchemy_conn").rsplit("@", 1)[-1]
        raise UsageError(f"Airflow's database ({where}) is not ready.", "Run: airflow db migrate") from None


def _pool(name: str, slots: int, description: str) -> str:
    with create_session() as session:
        there = Pool.get_pool(name, session=session)
        before = None if there is None else there.slots
        if before == slots:
            return f"pool {name}: {slots} slots, as it was"
        Pool.create_or_update_pool(name, slots, description, include_deferred=False, session=session)
    return f"pool {name}: created with {slots} slots" if before is None else f"pool {name}: {before} slots, now {slots}"


def _connection(name: str) -> str:
    try:
        there = Connection.get_connection_from_secrets(name)
    except AirflowNotFoundException:
        with create_session() as session:
            session.add(Connection(conn_id=name, conn_type="spark", host=LOCAL_MASTER, extra={"deploy-mode": "client"}))
        return f"connection {name}: created, master {LOCAL_MASTER}"
    return f"connection {name}: master {there.host or there.conn_type}, as it was"
