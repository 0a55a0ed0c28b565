"""A real cluster on this machine, without Docker: what docker-compose.yaml describes, from packages, as processes.

PostgreSQL, an S3 server, a Kafka broker, a Spark master with two workers, and Airflow's four programs. They outlive
whoever started them, and what they keep lies in one folder. `python -m drystone.testing.cluster up` starts what does
not run, `down` ends everything. Source: the design, "Real components without Docker".
"""

from drystone.testing.cluster.cluster import Cluster

__all__ = ["Cluster"]
