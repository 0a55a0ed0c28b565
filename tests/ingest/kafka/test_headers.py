"""Headers as text: every byte comes back."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from drystone.ingest.kafka.headers import from_text, to_text
from drystone.ingest.kafka.messages import HEADERS

_HEADERS = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=3)


@settings(deadline=None)
@given(st.lists(_HEADERS, max_size=6), st.integers(0, 3))
def test_headers_come_back_byte_by_byte(found: list[list[tuple[str, bytes | None]]], skipped: int) -> None:
    """Names that stand twice, null and empty values, quotes, any order; also of a slice of an array."""
    whole = pa.array(found, HEADERS)
    texts = to_text(whole.slice(skipped))
    assert from_text(texts).to_pylist() == whole.slice(skipped).to_pylist()


def test_the_text_is_plain_json() -> None:
    """Whoever reads a backup with another tool needs no more than a JSON parser and base64."""
    found = to_text(pa.array([[('a"b', b"\x00"), ("é", None)], [], None], HEADERS))
    assert [None if text is None else json.loads(text) for text in found.to_pylist()] == [
        [['a"b', "AA=="], ["é", None]],
        None,
        None,
    ]


def test_text_that_is_none_of_ours_is_refused() -> None:
    """It would be sent as something else than it was."""
    with pytest.raises(ValueError, match=r"[Bb]ase64|binascii|padding"):
        from_text(pa.array(['[["a", "%%%"]]']))
