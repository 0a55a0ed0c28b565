"""`<stream>__major_compaction` for every stream of the configuration file; see `drystone.airflow.major`."""

from drystone.airflow.major import dags

globals().update(dags())
