"""spark-submit as Drystone calls it: the environment's own programs, and never a cluster by accident."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowNotFoundException

from drystone import jobs
from drystone.airflow.access import Access
from drystone.errors import ConfigError

JAVA_OPTIONS = "spark.driver.extraJavaOptions"


class SubmitHook(SparkSubmitHook):
    """Runs the `spark-submit` of the environment that Airflow itself runs in. `access`: to the stream's bucket."""

    access: Access | None = None

    @property
    def master(self) -> str:
        """The master that the connection names."""
        return str(self._connection["master"])

    @property
    def shows_output(self) -> bool:
        """Whether what the job prints is already in the task's log: its driver is our child."""
        return bool(self._connection["deploy_mode"] != "cluster")

    def submit(self, application: str = "", **kwargs: object) -> str | None:
        """Run spark-submit to its end; raises AirflowException if it fails."""
        environment = child_environment(self.master)
        if self.access is not None:
            environment = self.access.environment(environment)
        return super().submit(application, env=environment, **kwargs)


def is_local(master: str) -> bool:
    """Tell whether `master` runs everything on the machine that submits."""
    return master == "local" or master.startswith("local[")


def child_environment(master: str) -> dict[str, str]:
    """Return the environment of spark-submit: found beside this Python, which is also the driver's.

    The workers of a cluster have a Python of their own, so only a local master is told to use this one for them, and
    to listen on this machine alone.
    """
    programs = str(Path(sys.executable).parent)
    found = dict(os.environ)
    found["PATH"] = f"{programs}{os.pathsep}{found.get('PATH', os.defpath)}"
    found["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if is_local(master):
        found["PYSPARK_PYTHON"] = sys.executable
        found.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    return found


def existing_connection(name: str) -> Connection:
    """Return the Airflow connection `name`; raise ConfigError if there is none.

    The provider takes a missing connection for YARN, which would send the job who knows where.
    """
    try:
        return BaseHook.get_connection(name)
    except AirflowNotFoundException:
        step = "Run `drystone airflow setup`, which creates it, or add a connection of type spark with that id."
        raise ConfigError(f"Airflow has no connection {name!r}.", step) from None


def check_reachable(master: str, bucket_url: str, *, shared_filesystem: bool) -> None:
    """Raise ConfigError if workers of `master` cannot see the bucket: a folder of this machine, on a cluster."""
    if is_local(master) or shared_filesystem or not bucket_url.startswith("file:"):
        return
    step = "Use an object store, or say spark.shared_filesystem: true if every worker has that folder."
    raise ConfigError(f"The bucket {bucket_url} is a local folder, but Spark's master is {master}.", step)


def quiet(conf: dict[str, str]) -> dict[str, str]:
    """Return `conf` with Spark's own logging at WARN, unless it names a logging configuration itself."""
    options = conf.get(JAVA_OPTIONS, "")
    if "log4j2.configurationFile" in options:
        return conf
    file = jobs.script("upload").with_name("log4j2.properties")
    return {**conf, JAVA_OPTIONS: f"{options} -Dlog4j2.configurationFile={file.as_uri()}".strip()}
