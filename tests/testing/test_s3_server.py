"""The S3 server of the tests: built once, whoever asks, and gone when it is not needed."""

from __future__ import annotations

import multiprocessing
import os
import stat
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from drystone.bucket.s3 import S3Bucket
from drystone.errors import DrystoneError, UsageError
from drystone.testing import s3_server as module
from drystone.testing.s3_server import VERSION, binary, s3_server

FAKE_GO = """#!/bin/sh
echo "$@" >> "$(dirname "$0")/calls"
sleep 0.3
printf '#!/bin/sh\\nexit 1\\n' > "$GOBIN/versitygw"
chmod +x "$GOBIN/versitygw"
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a `go` that only pretends: it notes its calls and takes its time."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "go").write_text(FAKE_GO)
    (folder / "go").chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return folder


def test_it_is_built_once_however_many_ask(fake: Path) -> None:
    """Of several processes that need the program at once one builds it, and all get it whole."""
    context = multiprocessing.get_context("fork")
    results = context.Queue()
    askers = [context.Process(target=lambda: results.put(binary().read_bytes())) for _ in range(4)]
    for asker in askers:
        asker.start()
    assert len({results.get(timeout=60) for _ in askers}) == 1
    for asker in askers:
        asker.join()
    assert fake.joinpath("calls").read_text().splitlines() == [
        f"install github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
    ]
    assert [path.name for path in binary().parent.iterdir() if path.name.startswith("building")] == []


def test_a_build_that_fails_is_said_and_leaves_nothing(fake: Path) -> None:
    """If Go fails, the error has what it said, and the next call tries again."""
    fake.joinpath("go").write_text("#!/bin/sh\necho 'no such module' >&2; exit 1\n")
    with pytest.raises(UsageError, match="cannot be built: no such module"):
        binary()
    fake.joinpath("go").write_text(FAKE_GO)
    assert binary().exists()


def test_without_go_it_is_said_what_is_missing(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Go on the PATH the error says what to install."""
    monkeypatch.setenv("PATH", str(fake.parent))
    with pytest.raises(UsageError, match=r"there is no 'go' on the PATH\. Install Go"):
        binary()


def test_a_server_that_does_not_start_is_said(fake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ends at once is an error, and is not waited for."""
    monkeypatch.setattr(module, "_STARTS", 1)
    with pytest.raises(DrystoneError, match="does not start"), s3_server(tmp_path / "it"):
        pass


def test_it_ends_with_its_block_and_serves_its_folder_again(tmp_path: Path) -> None:
    """After the block nobody listens; another server on the folder has the objects, and other credentials."""
    with s3_server(tmp_path) as server:
        S3Bucket(server.address(), credentials=server.credentials).put("k", b"data")
        secret = server.secret_key
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{server.endpoint}/health", timeout=5)  # noqa: S310 -- our own server
    with s3_server(tmp_path) as again:
        assert S3Bucket(again.address(), credentials=again.credentials).get("k") == b"data"
        assert again.secret_key != secret
