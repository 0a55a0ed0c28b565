"""`<stream>__lifecycle` for every stream of the configuration file; see `drystone.airflow.lifecycle`."""

from drystone.airflow.lifecycle import dags

globals().update(dags())
