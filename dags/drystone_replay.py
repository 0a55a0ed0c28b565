"""`<stream>__replay` for every stream that keeps messages from Kafka; see `drystone.airflow.replay`."""

from drystone.airflow.replay import dags

globals().update(dags())
