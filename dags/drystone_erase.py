"""`<stream>__erase` for every stream of the configuration file; see `drystone.airflow.erase`."""

from drystone.airflow.erase import dags

globals().update(dags())
