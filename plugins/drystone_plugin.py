"""The one file that Airflow loads from here: it hands over what `drystone.airflow.plugin` offers."""

from drystone.airflow.plugin import DrystonePlugin

__all__ = ["DrystonePlugin"]
