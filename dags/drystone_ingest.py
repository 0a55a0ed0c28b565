"""`<stream>__ingest` for every stream of the configuration file; see `drystone.airflow.ingest`."""

from drystone.airflow.ingest import dags

globals().update(dags())
