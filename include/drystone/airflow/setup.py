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

from drystone.airflow.access import source_of
from drystone.airflow.needs import bucket_connections, pools_of
from drystone.config.load import Loaded
from drystone.config.model import DEFAULT_BUCKET_CONNECTION
from drystone.errors import UsageError

LOCAL_MASTER = "local[*]"


def setup(loaded: Loaded) -> list[str]:
    """Create or correct the pools, create the Spark connection if it is missing; return a line for each thing.

    A connection that is there is left as it is; those of buckets in S3 are only looked at, for they hold secrets.
    Raises UsageError if Airflow's database is not ready.
    """
    check_database()
    lines = [_pool(name, slots, description) for name, slots, description in pools_of(loaded)]
    lines.append(_connection(loaded.config.spark.connection))
    return lines + [_bucket_connection(name) for name in bucket_connections(loaded)]


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


def _bucket_connection(name: str) -> str:
    # The provider takes a second to import, and only streams in S3 need it.
    from airflow.providers.amazon.aws.utils.connection_wrapper import AwsConnectionWrapper  # noqa: PLC0415

    chain = "the workers' environment, profile or role decides"
    try:
        there = Connection.get_connection_from_secrets(name)
    except AirflowNotFoundException:
        if name == DEFAULT_BUCKET_CONNECTION:
            return f"connection {name}: missing: {chain}"
        return f"connection {name}: MISSING: jobs fail until there is one of type aws"
    if there.conn_type != "aws":
        return f"connection {name}: of type {there.conn_type}: jobs fail until it is one of type aws"
    source = source_of(AwsConnectionWrapper(there))
    return f"connection {name}: credentials of {source}" if source else f"connection {name}: no credentials: {chain}"
