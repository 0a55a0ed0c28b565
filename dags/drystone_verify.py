"""`<stream>__verify` for every stream of the configuration file; see `drystone.airflow.verify`."""

from drystone.airflow.verify import dags

globals().update(dags())
