"""A real S3 server for tests and demos: versitygw on a folder of this machine, with signatures and a strict mind.

It is built once from its Go module into the user's cache, and started on a free port of 127.0.0.1 in a moment. Source:
the design, "Real components without Docker".
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from drystone.bucket.s3_address import S3Address
from drystone.bucket.s3_credentials import Credentials
from drystone.bucket.s3_store import Retries, Store
from drystone.errors import DrystoneError, UsageError
from drystone.testing.processes import dying_wish, free_port, stop

VERSION = "1.8.0"
REGION = "us-east-1"
BUCKET = "drystone"
"""The bucket that a new server has."""
_MODULE = "github.com/versity/versitygw/cmd/versitygw"
_BUILD_TIMEOUT = 1800
_START_TIMEOUT = 30.0
_STARTS = 3
_POLL = 0.02
_TAIL = 800


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server: where it is, who may do everything there, and the folder that it keeps things in."""

    endpoint: str
    access_key: str
    secret_key: str = field(repr=False)
    folder: Path

    def url(self, bucket: str = BUCKET, prefix: str = "") -> str:
        """Return the address of a bucket of this server for `open_bucket`."""
        return self.address(bucket, prefix).url

    def address(self, bucket: str = BUCKET, prefix: str = "") -> S3Address:
        """Return the same as an object."""
        return S3Address(bucket, prefix, endpoint=self.endpoint, region=REGION, path_style=True)

    def make_bucket(self, bucket: str) -> str:
        """Make a new bucket, and return its address."""
        store = Store(self.address(bucket), self.credentials, Retries())
        store.ask("make the bucket", lambda client: client.create_bucket(Bucket=bucket), ())
        return self.url(bucket)

    def make_user(self, name: str) -> Credentials:
        """Make a user, who has no rights but those of a bucket's policy, and return the user's credentials."""
        user = Credentials(f"{name}-{secrets.token_hex(4)}", secrets.token_urlsafe(30))
        who = ["--access", user.access_key, "--secret", user.secret_key, "--role", "user"]
        done = subprocess.run(  # noqa: S603 -- our own program
            [str(binary()), "admin", "--endpoint-url", self.endpoint, "create-user", *who],
            env={"ADMIN_ACCESS_KEY_ID": self.access_key, "ADMIN_SECRET_ACCESS_KEY": self.secret_key},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if done.returncode:
            raise DrystoneError(f"user {name} cannot be made: {done.stderr.decode(errors='replace').strip()}")
        return user

    @property
    def credentials(self) -> Credentials:
        """Who may do everything."""
        return Credentials(self.access_key, self.secret_key)

    @property
    def environment(self) -> dict[str, str]:
        """The environment that lets boto3 and Hadoop use this server, and none of the user's own accounts."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        }


@contextlib.contextmanager
def s3_server(folder: Path | None = None) -> Iterator[S3Server]:
    """Run a server with an empty bucket `BUCKET`; it ends, and a folder of its own with it, when the block is left.

    Call it in a thread that lives as long as the server shall. `folder`: where to keep the objects; what is there from
    an earlier server is served again. Raises UsageError if the server cannot be built here.
    """
    binary()
    with contextlib.ExitStack() as stack:
        root = folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="drystone-s3-")))
        data = root / "data"
        for each in (data, root / "users"):
            each.mkdir(parents=True, exist_ok=True)
        access_key, secret_key = f"AK{secrets.token_hex(8).upper()}", secrets.token_urlsafe(30)
        process, endpoint = _start(root, access_key, secret_key)
        stack.callback(stop, process)
        server = S3Server(endpoint, access_key, secret_key, data)
        if not (data / BUCKET).exists():
            server.make_bucket(BUCKET)
        yield server


def command(root: Path, port: int) -> list[str]:
    """Return the command line of a server on a port of 127.0.0.1; it needs the folders `data` and `users` of `root`.

    Its root account is taken from ROOT_ACCESS_KEY_ID and ROOT_SECRET_ACCESS_KEY. Raises UsageError as `binary` does.
    """
    return [
        *(str(binary()), "--port", f"127.0.0.1:{port}", "--region", REGION),
        *("--keep-alive", "--quiet", "--health", "/health", "--iam-dir", str(root / "users")),
        *("posix", str(root / "data")),
    ]


def binary() -> Path:
    """Return the server's program, built at the first call on a machine: some minutes. Several may call at once."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "drystone"
    program = base / f"versitygw-{VERSION}"
    if program.exists():
        return program
    base.mkdir(parents=True, exist_ok=True)
    with (base / "versitygw.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _build(base, program)
    return program


def _build(base: Path, program: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise UsageError(
            f"the S3 tests need versitygw {VERSION}, which is built with Go, and there is no 'go' on the PATH.",
            f"Install Go 1.25 or newer, or put the program at {program}.",
        )
    with tempfile.TemporaryDirectory(dir=base, prefix="building-") as folder:
        done = subprocess.run(  # noqa: S603 -- go, as found on the PATH
            [go, "install", f"{_MODULE}@v{VERSION}"],
            env=os.environ | {"GOBIN": folder, "CGO_ENABLED": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_BUILD_TIMEOUT,
            check=False,
        )
        if done.returncode:
            tail = " ".join(done.stderr.decode(errors="replace").split())[-_TAIL:]
            raise UsageError(f"versitygw {VERSION} cannot be built: {tail}", "Look at Go and its access to modules.")
        (Path(folder) / "versitygw").replace(program)


def _start(root: Path, access_key: str, secret_key: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start the server, and return it with its endpoint once it answers; try again if its port was taken meanwhile."""
    log = root / "server.log"
    for _ in range(_STARTS):
        port = free_port()
        with log.open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 -- our own program
                command(root, port),
                env=os.environ | {"ROOT_ACCESS_KEY_ID": access_key, "ROOT_SECRET_ACCESS_KEY": secret_key},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=dying_wish(),  # noqa: PLW1509 -- it only calls prctl
            )
        if _answers(process, f"http://127.0.0.1:{port}/health"):
            return process, f"http://127.0.0.1:{port}"
        stop(process)
    raise DrystoneError(f"versitygw does not start: {log.read_text(errors='replace')[-_TAIL:]}")


def _answers(process: subprocess.Popen[bytes], url: str) -> bool:
    """Wait until the server answers; return False if it has ended, or takes too long."""
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + _START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with direct.open(url, timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            time.sleep(_POLL)
    return False
