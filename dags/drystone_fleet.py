"""`drystone__fleet`, one for all streams of the configuration file; see `drystone.airflow.fleet`."""

from drystone.airflow.fleet import dags

globals().update(dags())
