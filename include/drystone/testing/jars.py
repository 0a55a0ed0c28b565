"""Java packages for tests: resolved once by Spark itself, as a user's Spark does, and kept outside the checkout."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from drystone.errors import UsageError

_TIMEOUT = 900
_TAIL = 800


def fetched(name: str, packages: Sequence[str], excluded: Sequence[str] = ()) -> list[Path]:
    """Return the jars of these packages (`group:artifact:version`) and of what they ask for, less what is excluded.

    They come from Maven Central at the first call on a machine, their checksums compared, and stay in the user's cache
    under `name`, which has to tell their versions. Several may call at once. Raises UsageError if they cannot be had.
    """
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drystone"
    folder = base / name
    if not folder.is_dir():
        base.mkdir(parents=True, exist_ok=True)
        with (base / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not folder.is_dir():
                _resolve(base, folder, packages, excluded)
    return sorted(folder.glob("*.jar"))


def _resolve(base: Path, folder: Path, packages: Sequence[str], excluded: Sequence[str]) -> None:
    """Have Spark fetch the packages for an application that does nothing."""
    with tempfile.TemporaryDirectory(dir=base, prefix="jars-") as work:
        application = Path(work) / "nothing.py"
        application.write_text("")
        command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[1]"]
        command += ["--packages", ",".join(packages)]
        command += ["--exclude-packages", ",".join(excluded)] if excluded else []
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
        wanted = packages[0].split(":")[1]
        if done.returncode or not any(found.glob(f"*{wanted}*.jar")):
            tail = " ".join(done.stderr.decode(errors="replace").split())[-_TAIL:]
            raise UsageError(f"Spark cannot fetch {wanted}'s jars: {tail}", "Look at its access to Maven Central.")
        found.rename(folder)
