"""Other S3 servers to show the probe on: from Maven (once, into the user's cache) or from PyPI, on 127.0.0.1."""

from __future__ import annotations

import fcntl
import logging
import os
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moto.server import ThreadedMotoServer

from drystone.bucket.s3 import S3Bucket
from drystone.bucket.s3_address import S3Address
from drystone.bucket.s3_credentials import Credentials
from drystone.bucket.s3_store import Retries, Store
from drystone.testing.processes import dying_wish, free_port, stop

S3PROXY = "org.gaul:s3proxy:4.1.0:jar:jar-with-dependencies"
S3MOCK = "com.adobe.testing:s3mock:5.2.0:jar:exec"
CREDENTIALS = Credentials("local-identity", "local-credential")
_REGION = "us-east-1"
_START_SECONDS = 60.0


def opened(endpoint: str) -> S3Bucket:
    """Make a bucket on the server, and return a part of it."""
    address = S3Address("lake", "some/prefix", endpoint=endpoint, region=_REGION, path_style=True)
    store = Store(address, CREDENTIALS, Retries())
    store.ask("make the bucket", lambda client: client.create_bucket(Bucket="lake"), ())
    return S3Bucket(address, credentials=CREDENTIALS)


@contextmanager
def moto() -> Iterator[S3Bucket]:
    """Run moto's stand-in in a thread of this process."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield opened(f"http://{host}:{port}")
    finally:
        server.stop()


@contextmanager
def s3proxy(late: int = 0) -> Iterator[S3Bucket]:
    """Run S3Proxy; with `late`, reads and listings see every change only so many seconds later."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="drystone-s3proxy-") as folder:
        settings = {
            "s3proxy.endpoint": f"http://127.0.0.1:{port}",
            "s3proxy.authorization": "aws-v2-or-v4",
            "s3proxy.identity": CREDENTIALS.access_key,
            "s3proxy.credential": CREDENTIALS.secret_key,
            "jclouds.provider": "transient-nio2" if late else "filesystem-nio2",
            "jclouds.identity": "remote-identity",
            "jclouds.credential": "remote-credential",
            "jclouds.filesystem.basedir": folder,
        }
        if late:
            settings |= {
                "s3proxy.eventual-consistency": "true",
                "s3proxy.eventual-consistency.delay": str(late),
                "s3proxy.eventual-consistency.probability": "1.0",
                "alt.jclouds.provider": "transient-nio2",
                "alt.jclouds.identity": "remote-identity",
                "alt.jclouds.credential": "remote-credential",
            }
        file = Path(folder) / "s3proxy.conf"
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with _java(["-jar", str(_jar(S3PROXY)), "--properties", str(file)], port):
            yield opened(f"http://127.0.0.1:{port}")


@contextmanager
def s3mock() -> Iterator[S3Bucket]:
    """Run Adobe's S3Mock."""
    port = free_port()
    settings = {
        "server.address": "127.0.0.1",
        "server.port": port,
        "server.ssl.enabled": "false",
        "vectors.http.port": "",
    }
    settings |= {"vectors.https.port": "", "com.adobe.testing.s3mock.max-payload-size": "100MB"}
    with _java(["-jar", str(_jar(S3MOCK)), *(f"--{name}={value}" for name, value in settings.items())], port):
        yield opened(f"http://127.0.0.1:{port}")


@contextmanager
def _java(arguments: list[str], port: int) -> Iterator[None]:
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            preexec_fn=dying_wish(),  # noqa: PLW1509 -- it only calls prctl
        )
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not _answers(port):
                log.seek(0)
                assert process.poll() is None, log.read().decode()[-2000:]
                assert time.monotonic() < deadline, log.read().decode()[-2000:]
                time.sleep(0.1)
            yield
        finally:
            stop(process)


def _answers(port: int) -> bool:
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


def _jar(artifact: str) -> Path:
    """Return a jar of Maven Central by its coordinates, fetched by Maven if it is not in the cache."""
    _, name, version, _, classifier = artifact.split(":")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drystone"
    jar = base / f"{name}-{version}-{classifier}.jar"
    if jar.exists():
        return jar
    assert shutil.which("mvn"), f"{jar.name} is fetched with Maven: apt-get install maven"
    base.mkdir(parents=True, exist_ok=True)
    with (base / "jars.lock").open("w") as lock, tempfile.TemporaryDirectory(dir=base) as folder:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not jar.exists():
            goal = ["dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
            subprocess.run(["mvn", "-q", "-B", *goal], check=True, timeout=900)
            (Path(folder) / jar.name).rename(jar)
    return jar
