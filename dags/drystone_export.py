"""`<stream>__export` for every stream of the configuration file that has one; see `drystone.airflow.export`."""

from drystone.airflow.export import dags

globals().update(dags())
