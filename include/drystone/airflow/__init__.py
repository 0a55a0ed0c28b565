"""Drystone in Airflow: operator, sensors, DAG builders and set-up. The only importer of airflow.

Nothing here imports Spark: a job is a process of its own, and `drystone.jobs` is what both sides know of it.
"""
