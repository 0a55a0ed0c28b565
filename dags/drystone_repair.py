"""`<stream>__repair` for every stream of the configuration file; see `drystone.airflow.repair`."""

from drystone.airflow.repair import dags

globals().update(dags())
