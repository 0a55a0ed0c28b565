"""The policies of docs/how-to/use-s3.md on a real server: each role can do its work, and nothing else."""

from __future__ import annotations

import json
import os
import re
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from s3_buckets import file_of
from s3_lives import Life

from drystone.bucket import s3_multipart
from drystone.bucket.s3 import S3Bucket
from drystone.bucket.s3_credentials import Credentials
from drystone.errors import BucketAccessError, UsageError
from drystone.testing.s3_server import S3Server

PAGE = Path(__file__).parents[2] / "docs/how-to/use-s3.md"
BLOCK = re.compile(r"\*\*(Reader|Appender|Remover)\*\*.*?```json\n(.*?)```", re.DOTALL)
Policy = dict[str, Any]


def documented() -> dict[str, Policy]:
    """Return the policy of each role, as the page has it."""
    return {name.lower(): json.loads(text) for name, text in BLOCK.findall(PAGE.read_text())}


POLICIES = documented()


class Office:
    """A bucket of its own, with one user for each role, who has just the role's policy."""

    def __init__(self, server: S3Server, name: str) -> None:
        """Make the bucket and the users."""
        server.make_bucket(name)
        self.server = server
        self.name = name
        self.users = {role: server.make_user(role) for role in POLICIES}
        self.root = self.bucket(server.credentials)
        self.grant(POLICIES)

    def bucket(self, who: Credentials | str) -> S3Bucket:
        """Return the bucket as a user sees it."""
        credentials = self.users[who] if isinstance(who, str) else who
        return S3Bucket(self.server.address(self.name, "drystone"), credentials=credentials)

    def grant(self, policies: dict[str, Policy]) -> None:
        """Let these be the rights of the users, and all that they have."""
        statements = []
        for role, policy in policies.items():
            for statement in deepcopy(policy)["Statement"]:
                statement["Principal"] = {"AWS": [self.users[role].access_key]}
                statement["Resource"] = statement["Resource"].replace(":::lake", f":::{self.name}")
                statements.append(statement)
        text = json.dumps({"Version": "2012-10-17", "Statement": statements})
        self.root._store.client().put_bucket_policy(Bucket=self.name, Policy=text)


@pytest.fixture(scope="module")
def office(s3: S3Server) -> Office:
    """A bucket with three users."""
    return Office(s3, "rights")


def actions(policy: Policy) -> list[str]:
    """Return the rights of a policy."""
    named = [statement["Action"] for statement in policy["Statement"]]
    return [action for each in named for action in ([each] if isinstance(each, str) else each)]


def without(policy: Policy, right: str) -> Policy:
    """Return the policy less one right."""
    left = []
    for statement in policy["Statement"]:
        named = statement["Action"]
        kept = [action for action in ([named] if isinstance(named, str) else named) if action != right]
        left += [{**statement, "Action": kept}] if kept else []
    return {**policy, "Statement": left}


def test_the_page_has_a_policy_for_each_role() -> None:
    """All three roles are there, none may do everything, and only the remover may delete."""
    assert set(POLICIES) == {"reader", "appender", "remover"}
    assert {role for role in POLICIES if "s3:DeleteObject" in actions(POLICIES[role])} == {"remover"}
    assert not any("*" in action for policy in POLICIES.values() for action in actions(policy))


def test_each_role_can_do_its_work_and_no_other(office: Office, tmp_path: Path) -> None:
    """The appender appends and compacts, the reader reads, the remover marks and sweeps; what is others' is refused."""
    life = Life(office.bucket("appender"), tmp_path)
    for number in range(3):
        life.append(number)
    office.bucket("appender").upload("events/large", file_of(tmp_path, s3_multipart.SINGLE_BYTES + 1))
    life.wait()
    merged = life.compact()
    with pytest.raises(BucketAccessError, match="may not do that"):
        office.bucket("appender").delete(["events/large"])
    life.wait()
    life.bucket = office.bucket("reader")
    assert life.rows() == life.truth
    for call in (life.mark, lambda: life.bucket.put("k", b""), lambda: life.bucket.delete(["events/large"])):
        with pytest.raises(BucketAccessError, match="may not do that"):
            call()
    life.bucket = office.bucket("remover")
    assert len(life.mark()) == 3
    life.wait()
    assert len(life.sweep()) == 3
    assert merged[0] in life.blocks()
    with pytest.raises(BucketAccessError):
        list(replace_prefix(office, "remover").list(""))


def replace_prefix(office: Office, role: str) -> S3Bucket:
    """Return another prefix of the bucket, as a user of the first one sees it."""
    address = replace(office.bucket(role)._address, prefix="elsewhere")
    return S3Bucket(address, credentials=office.users[role])


def work(role: str, life: Life, tmp_path: Path) -> None:
    """Do what a role is for, a failing upload included."""
    if role == "reader":
        life.rows()
    elif role == "remover":
        life.mark()
        life.wait()
        life.sweep()
    else:
        life.append(9)
        life.compact()
        assert isinstance(life.bucket, S3Bucket)
        path = file_of(tmp_path, 12 << 20)
        with path.open("rb") as file:
            os.truncate(path, 1 << 20)
            try:
                s3_multipart.upload_parts(life.bucket._store, "k", file.fileno(), 12 << 20)
            except UsageError as error:
                if hasattr(error, "__notes__"):
                    raise BucketAccessError(error.__notes__[0]) from None


@pytest.mark.parametrize(("role", "right"), [(role, right) for role in POLICIES for right in actions(POLICIES[role])])
def test_no_right_is_there_for_nothing(office: Office, tmp_path: Path, role: str, right: str) -> None:
    """With any of its rights taken away a role cannot do its work: the policies are the smallest ones."""
    stream = Life(office.root, tmp_path)
    for number in range(2 if role == "remover" else 1):
        stream.append(number)
    stream.wait()
    if role == "remover":
        stream.compact()
        stream.wait()
    stream.bucket = office.bucket(role)
    office.grant(POLICIES | {role: without(POLICIES[role], right)})
    try:
        with pytest.raises((BucketAccessError, AssertionError), match="may not do that"):
            work(role, stream, tmp_path)
    finally:
        office.grant(POLICIES)
