"""`<stream>__retention` for every stream of the configuration file; see `drystone.airflow.retention`."""

from drystone.airflow.retention import dags

globals().update(dags())
