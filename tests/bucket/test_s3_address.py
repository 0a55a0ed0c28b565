"""Addresses of S3 buckets: one text says everything but who we are."""

from __future__ import annotations

import pytest
from botocore import exceptions as boto
from hypothesis import given
from hypothesis import strategies as st

from drystone.bucket import open_bucket
from drystone.bucket.s3 import S3Bucket
from drystone.bucket.s3_address import ENCRYPTIONS, S3Address, parse
from drystone.bucket.s3_failures import explain
from drystone.errors import ConfigError, UsageError

PREFIXES = st.lists(st.sampled_from(["lake", "a b", "é", "50%25", "x=1&y", "#", "+"]), max_size=3).map("/".join)


@given(
    st.builds(
        S3Address,
        st.from_regex(r"[a-z0-9][a-z0-9.-]{1,30}[a-z0-9]", fullmatch=True),
        PREFIXES,
        endpoint=st.sampled_from(["", "http://127.0.0.1:7070", "https://store.example/base"]),
        region=st.sampled_from(["", "eu-central-1"]),
        path_style=st.booleans(),
        sse=st.sampled_from(["", *ENCRYPTIONS]),
    )
)
def test_an_address_reads_back_as_itself(address: S3Address) -> None:
    """Whatever the bucket, prefix and settings, `parse(address.url)` is the address."""
    assert parse(address.url) == address
    assert open_bucket(address.url).url == address.url


def test_settings_come_from_the_query() -> None:
    """Each setting stands in the query, in any order; a slash at the prefix's end means nothing."""
    found = parse(
        "s3://lake/a/b/?path_style=true&region=eu-west-1&endpoint=http://10.0.0.1:9000/&sse=aws:kms&sse_kms_key=k"
    )
    assert found == S3Address(
        "lake", "a/b", "http://10.0.0.1:9000", "eu-west-1", path_style=True, sse="aws:kms", sse_kms_key="k"
    )
    assert found.root == "a/b/"
    assert parse("s3://lake") == S3Address("lake")


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("s3://", "'' cannot be the name of a bucket"),
        ("s3://a", "'a' cannot be the name of a bucket"),
        ("s3://la ke", "'la ke' cannot be the name"),
        ("s3://lake/a//b", "'a//b' cannot be a prefix"),
        ("s3://lake/../x", "cannot be a prefix"),
        ("s3://lake?", ""),
        ("s3://lake?region", "not of the form name=value"),
        ("s3://lake?region=", "region is empty"),
        ("s3://lake?region=a&region=b", "region is given twice"),
        ("s3://lake?regio=a", "unknown setting 'regio'"),
        ("s3://lake?region=a%20b", "region must be letters"),
        ("s3://lake?path_style=yes", "path_style must be true or false"),
        ("s3://lake?endpoint=10.0.0.1:9000", "endpoint must be http"),
        ("s3://lake?endpoint=http://:1", "endpoint must be http"),
        ("s3://lake?endpoint=http://h:port", "endpoint must be http"),
        ("s3://lake?endpoint=http://h?a%3Db", "endpoint must end"),
        ("s3://lake?sse=aes", "sse must be one of AES256"),
        ("s3://lake?sse=AES256&sse_kms_key=k", "sse_kms_key needs sse=aws:kms"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(url: str, problem: str) -> None:
    """A wrong address raises ConfigError that says which part is wrong and how it should look."""
    if not problem:
        assert parse(url) == S3Address("lake")
        return
    with pytest.raises(ConfigError, match=problem) as caught:
        open_bucket(url)
    assert "s3://bucket/prefix?endpoint=" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "s3://AKIA:hush-hush@lake/x",
        "s3://AKIA:a/hush-hush@lake/x",
        "s3://AKIA:hush-hush/b@lake?region=a",
        "s3://lake?region=hush-hush/AKIA",
        "s3://lake?endpoint=https://AKIA:hush-hush@store",
        "s3://lake?aws_secret_access_key=hush-hush",
        "s3://lake?secret=hush-hush&region=a",
    ],
)
def test_a_secret_in_an_address_is_refused_and_not_repeated(url: str) -> None:
    """Credentials in an address are an error that does not show them."""
    with pytest.raises(ConfigError) as caught:
        open_bucket(url)
    assert "hush-hush" not in str(caught.value)
    assert "AKIA" not in str(caught.value)


def test_a_key_that_is_too_long_below_the_prefix_is_refused() -> None:
    """The store's limit counts the prefix too."""
    bucket = S3Bucket("s3://lake/" + "p" * 200)
    with pytest.raises(UsageError, match=r"more than 1,024 bytes. Use a shorter prefix or key"):
        bucket.get("/".join(["k" * 200] * 5))


def test_opening_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Opening an address does no I/O, and needs neither credentials nor a store."""
    monkeypatch.setenv("AWS_PROFILE", "there-is-none")
    bucket = open_bucket("s3://lake/p?endpoint=http://127.0.0.1:1")
    assert bucket.uri("s/k") == "s3a://lake/p/s/k"
    assert repr(bucket) == "S3Bucket('s3://lake/p?endpoint=http://127.0.0.1:1')"


def test_what_a_client_or_a_store_says_is_told_without_secrets() -> None:
    """A proxy's password and a signed address's settings are left out of what is repeated."""
    address = parse("s3://lake/p")
    texts = (
        "proxy http://me:hush@proxy:3128 said no",
        "https://store/lake/k?signature=hush&token=hush failed",
    )
    for text in texts:
        client = boto.HTTPClientError(error=text)
        store = boto.ClientError({"Error": {"Code": "Odd", "Message": text}}, "GetObject")
        for error in (client, store):
            told = str(explain(error, "read k", address))
            assert "hush" not in told
            assert text.split("//")[0] in told
