"""`<stream>__retire` for every stream of the configuration file; see `drystone.airflow.retire`."""

from drystone.airflow.retire import dags

globals().update(dags())
