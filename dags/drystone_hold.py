"""`<stream>__hold` for every stream of the configuration file; see `drystone.airflow.hold`."""

from drystone.airflow.hold import dags

globals().update(dags())
