"""From addresses to buckets."""

from __future__ import annotations

import secrets
from pathlib import Path

import pytest

from drystone.bucket import LocalBucket, MemoryBucket, open_bucket
from drystone.errors import ConfigError


def test_a_file_address_is_a_local_folder_written_as_it_is(tmp_path: Path) -> None:
    """`file://` and an absolute path opens that folder: spaces, `%` and trailing slashes included, and does no I/O."""
    folder = tmp_path / "a b%20é"
    bucket = open_bucket(f"file://{folder}/")
    assert isinstance(bucket, LocalBucket)
    assert bucket.url == f"file://{folder}"
    assert not folder.exists()


def test_a_memory_address_is_a_bucket_of_this_process() -> None:
    """`memory://name` opens the memory bucket of that name."""
    name = secrets.token_hex(8)
    MemoryBucket(name).put("k", b"data")
    assert open_bucket(f"memory://{name}").get("k") == b"data"


def test_an_address_of_no_kind_is_shown_without_its_secrets() -> None:
    """Whatever kind it is of, who somebody is and the values of settings are not repeated."""
    urls = ("gs://AKIA:hush@lake/x?key=hush", "s3:lake?secret=hush", "file://AKIA:hush@relative", "memory://a/b?c=hush")
    for url in urls:
        with pytest.raises(ConfigError) as caught:
            open_bucket(url)
        assert "hush" not in str(caught.value)
        assert "AKIA" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("", "folder", "/abs/folder", "file:/abs", "file://relative/folder", "file://", "file:///", "FILE:///x"),
        *("s3:bucket", "S3", "S3://bucket", "memory://", "memory://a/b"),
    ],
)
def test_any_other_address_is_refused_with_the_list_of_what_is_known(url: str) -> None:
    """An address of another form raises ConfigError that repeats it and lists the known forms."""
    with pytest.raises(ConfigError, match="Known: file:///absolute/folder, memory://name") as caught:
        open_bucket(url)
    assert repr(url) in str(caught.value)
