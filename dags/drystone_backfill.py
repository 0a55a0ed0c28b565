"""`<stream>__backfill` for every parsed stream from Kafka; see `drystone.airflow.backfill`."""

from drystone.airflow.backfill import dags

globals().update(dags())
