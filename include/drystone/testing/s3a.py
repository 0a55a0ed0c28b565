"""S3A's jars for tests: resolved once by Spark itself, as a user's Spark does, and kept outside the checkout."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from drystone.errors import UsageError
from drystone.spark.s3a import EXCLUDED, HADOOP, PACKAGES, SDK

_TIMEOUT = 900
_TAIL = 800


def jars() -> list[Path]:
    """Return S3A's jars for `spark.driver.extraClassPath`, from Maven Central at the first call on a machine (19 MB).

    Several may call at once. Raises UsageError if they cannot be had.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drystone"
    folder = base / f"s3a-jars-{HADOOP}-{SDK}"
    if not folder.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        with (base / "s3a-jars.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _resolve(base, folder)
    return sorted(folder.glob("*.jar"))


def _resolve(base: Path, folder: Path) -> None:
    """Have Spark fetch the packages, checksums compared, for an application that does nothing."""
    with tempfile.TemporaryDirectory(dir=base, prefix="s3a-") as work:
        application = Path(work) / "nothing.py"
        application.write_text("")
        command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]"]
        command += ["--packages", ",".join(PACKAGES), "--exclude-packages", EXCLUDED]
        command += ["--conf", f"spark.jars.ivy={work}/ivy", str(application)]
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
        done = subprocess.run(  # noqa: S603 -- Spark's own program
            command,
            env=os.environ | {"PATH": programs, "SPARK_LOCAL_IP": "127.0.0.1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
        found = Path(work) / "ivy" / "jars"
        if done.returncode or not any(found.glob("*hadoop-aws*.jar")):
            tail = " ".join(done.stderr.decode(errors="replace").split())[-_TAIL:]
            raise UsageError(f"Spark cannot fetch S3A's jars: {tail}", "Look at its access to Maven Central.")
        found.rename(folder)
