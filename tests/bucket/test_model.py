"""Buckets against a dictionary: whatever is done to them, in whatever order, both tell the same."""

from __future__ import annotations

import secrets
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from s3_buckets import Waits, new_bucket

from drystone.bucket import Bucket, LocalBucket, MemoryBucket
from drystone.errors import ObjectExistsError, ObjectMissingError, UsageError
from drystone.testing.s3_server import S3Server

PARTS = st.sampled_from(["a", "a!", "a-", "a.b", "a0", "b", ".h", "é", "\uffee", "\U0001f600"])
KEYS = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
TEXTS = st.one_of(
    KEYS,
    KEYS.flatmap(lambda key: st.integers(0, len(key)).map(lambda end: key[:end])),
    KEYS.map(lambda key: key + "/"),
    st.text("a!-./0bh", max_size=4),
)
DATA = st.binary(max_size=20)


class BucketMachine(RuleBasedStateMachine):
    """A bucket and the dictionary that it should be."""

    nested_keys = True
    """Whether one object's key can be the folder of another's."""

    def __init__(self) -> None:
        """Begin with an empty bucket."""
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="drystone-model-"))
        self.bucket = self.make()
        self.model: dict[str, bytes] = {}

    def make(self) -> Bucket:
        """Return an empty bucket."""
        raise NotImplementedError

    def teardown(self) -> None:
        """Remove what is on the disk."""
        shutil.rmtree(self.folder)

    def blocked(self, key: str) -> bool:
        """Tell whether another object's key is in the way of this one."""
        return not self.nested_keys and any(
            key.startswith(f"{other}/") or other.startswith(f"{key}/") for other in self.model
        )

    @rule(key=KEYS, data=DATA)
    def put(self, key: str, data: bytes) -> None:
        """Put replaces what is there."""
        if self.blocked(key):
            with pytest.raises(UsageError):
                self.bucket.put(key, data)
        else:
            self.bucket.put(key, data)
            self.model[key] = data

    @rule(key=KEYS, data=DATA, by_file=st.booleans())
    def create(self, key: str, data: bytes, *, by_file: bool) -> None:
        """Create and upload take free keys only."""
        path = self.folder / f"staged-{secrets.token_hex(8)}"
        path.write_bytes(data)
        expected = ObjectExistsError if key in self.model else UsageError if self.blocked(key) else None

        def write() -> None:
            if by_file:
                self.bucket.upload(key, path)
            else:
                self.bucket.create(key, data)

        if expected is not None:
            with pytest.raises(expected):
                write()
        else:
            write()
            self.model[key] = data
        path.unlink()

    @rule(keys=st.lists(KEYS, max_size=4))
    def delete(self, keys: list[str]) -> None:
        """Delete removes what is there."""
        self.bucket.delete([*keys, *[key for key in keys if key in self.model]])
        for key in keys:
            self.model.pop(key, None)

    @rule(key=KEYS, start=st.integers(0, 25), length=st.integers(0, 25))
    def read(self, key: str, start: int, length: int) -> None:
        """Reads give what is there, or say that nothing is."""
        if key in self.model:
            assert self.bucket.get(key) == self.model[key]
            assert self.bucket.get_range(key, start, length) == self.model[key][start : start + length]
            assert self.bucket.head(key).size == len(self.model[key])
        else:
            with pytest.raises(ObjectMissingError):
                self.bucket.get(key)

    @rule(prefix=TEXTS, start_after=TEXTS)
    def list(self, prefix: str, start_after: str) -> None:
        """Listings give the keys of the prefix after the start, in byte order, with their sizes."""
        wanted = sorted(
            (key for key in self.model if key.startswith(prefix) and key.encode() > start_after.encode()),
            key=str.encode,
        )
        found = [(info.key, info.size) for info in self.bucket.list(prefix, start_after)]
        assert found == [(key, len(self.model[key])) for key in wanted]

    @invariant()
    def all_is_listed(self) -> None:
        """A whole listing has everything."""
        self.list("", "")


class LocalMachine(BucketMachine):
    """A local folder, in which dead removers leave empty folders."""

    nested_keys = False

    def make(self) -> Bucket:
        """Return a bucket in a folder that does not exist yet."""
        return LocalBucket(self.folder / "bucket")

    @rule(key=KEYS)
    def leave_empty_folder(self, key: str) -> None:
        """A remover died before it removed the folder that it had emptied."""
        if key not in self.model and not any(key.startswith(f"{other}/") for other in self.model):
            (self.folder / "bucket" / key).mkdir(parents=True, exist_ok=True)


class MemoryMachine(BucketMachine):
    """Memory."""

    def make(self) -> Bucket:
        """Return a bucket of a new name."""
        return MemoryBucket(secrets.token_hex(8))


SETTINGS = settings(
    max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
TestLocalBucket = LocalMachine.TestCase
TestLocalBucket.__doc__ = "A local bucket and a dictionary tell the same, whatever is done to both."
TestLocalBucket.settings = SETTINGS
TestMemoryBucket = MemoryMachine.TestCase
TestMemoryBucket.__doc__ = "A memory bucket and a dictionary tell the same, whatever is done to both."
TestMemoryBucket.settings = SETTINGS


def test_an_s3_bucket_and_a_dictionary_tell_the_same(s3: S3Server) -> None:
    """An S3 bucket that lists in short pages and a dictionary tell the same, whatever is done to both."""

    class S3Machine(BucketMachine):
        # The server of the tests keeps objects in a folder, as a local bucket does.
        nested_keys = False

        def make(self) -> Bucket:
            return new_bucket(s3, page_keys=2, credentials=s3.credentials, retries=Waits().retries(2))

    few = settings(SETTINGS, max_examples=8, stateful_step_count=20)
    run_state_machine_as_test(S3Machine, settings=few)  # type: ignore[no-untyped-call]
